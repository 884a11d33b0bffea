// Goldens of every tokenizer: ids with and without special tokens, special tokens not parsed, decoding, streaming.
// Eleven small tokenizers are in the repository; the real vocabularies are fetched, and skip by name where they are
// not. Of their goldens every second line is kept here; VERNIER_TOKENIZER_GOLDENS names a folder with all.

#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "golden_file.h"
#include "text/detokenizer.h"
#include "text/utf8.h"

namespace vernier {
namespace {

using golden::Json;

const std::string kData = VERNIER_TEST_DATA "/tokenizers";

std::string golden_folder() {
  const char* folder = std::getenv("VERNIER_TOKENIZER_GOLDENS");
  return folder == nullptr ? kData : folder;
}

std::string shown(const std::string& text) {
  return Json(text.substr(0, 120)).dump(-1, ' ', true, Json::error_handler_t::replace);
}

std::vector<TokenId> encode(const Tokenizer& tokenizer, const std::string& text, EncodeOptions options) {
  auto ids = tokenizer.encode(text, options);
  EXPECT_TRUE(ids.ok());
  return ids.ok() ? *ids : std::vector<TokenId>();
}

/// At most this many differences are printed for each file.
constexpr int kShown = 5;

void check_encode(const Tokenizer& tokenizer, const std::vector<Json>& lines) {
  int wrong = 0;
  auto expect = [&](const std::vector<TokenId>& found, const Json& wanted, const std::string& what, const Json& line) {
    if (found == wanted.get<std::vector<TokenId>>()) return;
    if (++wrong > kShown) return;
    ADD_FAILURE() << what << " [" << line["g"] << "] " << shown(golden::input_of(line)) << "\n  found    "
                  << Json(found).dump().substr(0, 300) << "\n  expected " << wanted.dump().substr(0, 300);
  };
  for (size_t i = 1; i < lines.size(); ++i) {
    const Json& line = lines[i];
    std::string text = golden::input_of(line);
    const Json& ids = line["ids"];
    expect(encode(tokenizer, text, {}), ids, "ids", line);
    expect(encode(tokenizer, text, {.add_special = true}), line.value("special", ids), "with special", line);
    expect(encode(tokenizer, text, {.parse_special = false}), line.value("plain", ids), "plain", line);
    std::string decoded = tokenizer.decode(ids.get<std::vector<TokenId>>());
    std::string wanted = line.value("decoded", replace_bad_utf8(text));
    if (decoded != wanted && ++wrong <= kShown) {
      ADD_FAILURE() << "decoded " << shown(decoded) << ", expected " << shown(wanted);
    }
  }
  EXPECT_EQ(wrong, 0) << "differences in all";
}

/// What streaming gives: pieces that are whole characters and join to the text.
std::string stream(const Tokenizer& tokenizer, const std::vector<TokenId>& ids, bool skip_special) {
  Detokenizer detokenizer(tokenizer, skip_special);
  std::string joined;
  for (TokenId id : ids) {
    std::string piece = detokenizer.push(id);
    EXPECT_TRUE(is_valid_utf8(piece));
    joined += piece;
  }
  return joined + detokenizer.finish();
}

void check_decode(const Tokenizer& tokenizer, const std::vector<Json>& lines) {
  for (size_t i = 1; i < lines.size(); ++i) {
    const Json& line = lines[i];
    auto ids = line["ids"].get<std::vector<TokenId>>();
    auto text = line["text"].get<std::string>();
    std::string skipped = line.value("skipped", text);
    EXPECT_EQ(shown(tokenizer.decode(ids)), shown(text)) << line["g"] << line["ids"];
    EXPECT_EQ(shown(tokenizer.decode(ids, true)), shown(skipped)) << line["g"] << line["ids"];
    EXPECT_EQ(stream(tokenizer, ids, false), text);
    EXPECT_EQ(stream(tokenizer, ids, true), skipped);
    for (size_t k = 0; k < ids.size(); ++k) {
      std::optional<std::string> bytes = tokenizer.token_bytes(ids[k]);
      ASSERT_EQ(bytes.has_value(), !line["bytes"][k].is_null()) << ids[k];
      if (bytes) {
        EXPECT_EQ(*bytes, golden::from_hex(line["bytes"][k])) << ids[k];
      }
    }
  }
}

void check(const std::string& name, const std::string& path) {
  std::vector<Json> lines = golden::read_lines(golden_folder() + "/" + name + ".jsonl.gz");
  std::vector<Json> sequences = golden::read_lines(golden_folder() + "/" + name + ".decode.jsonl.gz");
  ASSERT_GT(lines.size(), 1u) << name;
  ASSERT_GT(sequences.size(), 1u) << name;
  auto tokenizer = Tokenizer::from_json(golden::read_file(path));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_EQ(tokenizer->vocabulary_size(), lines[0]["vocabulary"].get<size_t>());
  check_encode(*tokenizer, lines);
  check_decode(*tokenizer, sequences);
}

class SmallTokenizer : public testing::TestWithParam<const char*> {};
TEST_P(SmallTokenizer, EqualsHuggingFace) {
  check(GetParam(), kData + "/" + GetParam() + ".json");
}

auto test_name = [](const testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
};

INSTANTIATE_TEST_SUITE_P(Golden, SmallTokenizer,
                         testing::Values("mini-flags", "mini-merges", "mini-ignore-merges", "mini-spm-prepend",
                                         "mini-spm-first", "mini-spm-always", "mini-spm-never", "mini-unigram",
                                         "mini-unigram-bytes", "mini-wordpiece", "mini-wordpiece-cased"),
                         test_name);

class FetchedTokenizer : public testing::TestWithParam<const char*> {};
TEST_P(FetchedTokenizer, EqualsHuggingFace) {
  const char* folder = std::getenv("VERNIER_VOCABULARIES");
  std::string path = std::string(folder == nullptr ? "" : folder) + "/" + GetParam() + "/tokenizer.json";
  if (folder == nullptr || !golden::exists(path)) {
    GTEST_SKIP() << GetParam()
                 << ": no such vocabulary; fetch it with `python3 tools/golden_tokenizers/make.py fetch DIR "
                 << GetParam() << "` and set VERNIER_VOCABULARIES=DIR";
  }
  check(GetParam(), path);
}

INSTANTIATE_TEST_SUITE_P(Golden, FetchedTokenizer,
                         testing::Values("gpt2", "smollm2", "llama3", "llama4", "qwen2", "qwen35", "gpt-oss",
                                         "deepseek", "deepseek-coder", "falcon", "mpt", "command-r", "tekken", "llama2",
                                         "mistral-v3", "phi3", "gemma3", "gemma4", "xlm-roberta", "mon", "minilm"),
                         test_name);

}  // namespace
}  // namespace vernier
