#include "text/json_scanner.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>

namespace vernier {
namespace {

JsonScanner::State scan(std::string_view text) {
  JsonScanner scanner;
  for (size_t i = 0; i < text.size(); ++i) {
    JsonScanner::State state = scanner.push(text[i]);
    if (state == JsonScanner::State::kBroken) return state;
    if (state == JsonScanner::State::kDone) return i + 1 == text.size() ? state : JsonScanner::State::kBroken;
  }
  return JsonScanner::State::kGoing;
}

TEST(JsonScanner, KnowsWholeOpenAndBroken) {
  for (const char* whole :
       {"{}", " {\"a\":[]}", "{\"a\":[1,-0.5e+3,true,false,null,\"\\u00e9\\n\"],\"b\":{\"c\":0}}"}) {
    EXPECT_EQ(scan(whole), JsonScanner::State::kDone) << whole;
    for (size_t n = 0; n + 1 < std::string(whole).size(); ++n) {
      EXPECT_EQ(scan(std::string(whole).substr(0, n)), JsonScanner::State::kGoing) << whole << " " << n;
    }
  }
  for (const char* broken :
       {"[]", "1", "{,}", "{\"a\"}", "{\"a\":}", "{\"a\":01}", "{\"a\":1.}", "{\"a\":+1}", "{\"a\":\"\n\"}",
        "{\"a\":\"\\x\"}", "{\"a\":nul}", "{\"a\":[1,]}", "{\"a\":1,}", "{\"a\":[}", "{a:1}", "{\"a\":1]"}) {
    EXPECT_EQ(scan(broken), JsonScanner::State::kBroken) << broken;
  }
}

// I16: deeply nested JSON ends no process.
TEST(JsonScanner, BoundsTheDepth) {
  auto nested = [](size_t depth) { return "{\"a\":" + std::string(depth, '[') + std::string(depth, ']') + "}"; };
  EXPECT_EQ(scan(nested(JsonScanner::kMaxDepth - 1)), JsonScanner::State::kDone);
  EXPECT_EQ(scan(nested(JsonScanner::kMaxDepth)), JsonScanner::State::kBroken);
  EXPECT_EQ(scan(nested(1'000'000)), JsonScanner::State::kBroken);
}

TEST(JsonScanner, AgreesWithAnotherParser) {
  std::mt19937 random(7);
  const std::string_view bits[] = {"{", "}",  "[",  "]",    "\"a\"", "\"b\"", ":",  ",",  "1",     "0",
                                   "-", ".5", "e2", "true", "null",  " ",     "\\", "\"", "\\u12", "ab"};
  int whole = 0;
  for (int round = 0; round < 300'000; ++round) {
    std::string text = "{\"a\":";
    for (size_t n = random() % 7; n > 0; --n) text += bits[random() % std::size(bits)];
    text += "}";
    bool accepted = scan(text) == JsonScanner::State::kDone;
    whole += accepted;
    if (accepted && text.find("e2") != std::string::npos) continue;  // the other one refuses what no double holds
    ASSERT_EQ(accepted, nlohmann::json::accept(text)) << text;
  }
  EXPECT_GT(whole, 1000);
}

}  // namespace
}  // namespace vernier
