#include "tune/content_hash.h"

#include <gtest/gtest.h>

#include <string>

namespace vernier {
namespace {

// The examples of FIPS 180-4, and lengths around the ends of a block, as sha256sum gives them.
TEST(ContentHash, IsSha256) {
  EXPECT_EQ(content_hash("").to_hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(content_hash("abc").to_hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(content_hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq").to_hex(),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(content_hash(std::string(1'000'000, 'a')).to_hex(),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  EXPECT_EQ(content_hash(std::string(55, 'x')).to_hex(),
            "d5e285683cd4efc02d021a5c62014694958901005d6f71e89e0989fac77e4072");
  EXPECT_EQ(content_hash(std::string(56, 'x')).to_hex(),
            "04c26261370ee7541549d16dee320c723e3fd14671e66a099afe0a377c16888e");
  EXPECT_EQ(content_hash(std::string(63, 'x')).to_hex(),
            "75220b47218278e656f2013bb8f0c455a25eaf01e86c64924e9d48d89776d6f2");
  EXPECT_EQ(content_hash(std::string(64, 'x')).to_hex(),
            "7ce100971f64e7001e8fe5a51973ecdfe1ced42befe7ee8d5fd6219506b5393c");
  EXPECT_EQ(content_hash(std::string(65, 'x')).to_hex(),
            "9537c5fdf120482f7d58d25e9ed583f52c02b4e304ea814db1633ad565aed7e9");
  EXPECT_EQ(content_hash(std::string(119, 'x')).to_hex(),
            "000b48d4edf0fa7bee3c6236ecd2785baa5db4eeb8bb54341b029e0d9fa5fb0c");
  EXPECT_EQ(content_hash(std::string(120, 'x')).to_hex(),
            "13f05a0b594787f5ecd315edc96141bd3243203d1b7d4f0836f37308b276ba98");
}

TEST(ContentHash, WordsAreItsFirstDigits) {
  const ContentHash hash = content_hash("abc");
  EXPECT_EQ(hash.word(0), 0xba7816bf8f01cfeaULL);
  EXPECT_EQ(hash.word(3), 0xb410ff61f20015adULL);
}

TEST(ContentHash, TextOfOneIsKnownFromOtherText) {
  const std::string hex = content_hash("abc").to_hex();
  EXPECT_TRUE(is_hash_text(hex));
  EXPECT_FALSE(is_hash_text(hex.substr(1)));
  EXPECT_FALSE(is_hash_text("B" + hex.substr(1)));
  EXPECT_FALSE(is_hash_text("../" + hex.substr(3)));
}

}  // namespace
}  // namespace vernier
