// Tokenizer files that break their format: a message each, never a crash. (TEXT-7, TEXT-8)

#include <gtest/gtest.h>

#include <random>

#include "small_tokenizer.h"

namespace vernier {
namespace {

std::string bpe(const std::string& rest) {
  return R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]})" + (rest.empty() ? "" : "," + rest) + "}";
}

TEST(HostileTokenizer, IsRefusedWithAMessage) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "not valid JSON"},
      {"[1]", "expected an object"},
      {"{}", "'model' is missing"},
      {R"({"model":{"type":"Nonsense"}})", "'Nonsense'"},
      {R"({"model":{"type":"BPE","vocab":[],"merges":[]}})", "'vocab'"},
      {R"({"model":{"type":"BPE","vocab":{"a":-1},"merges":[]}})", "the id -1"},
      {R"({"model":{"type":"BPE","vocab":{"a":99999999999},"merges":[]}})", "99999999999"},
      {R"({"model":{"type":"BPE","vocab":{"a":"b"},"merges":[]}})", "'a' is not a number"},
      {R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[1]}})", "neither text nor a pair"},
      {R"({"model":{"type":"BPE","vocab":{"a":0},"merges":["aa"]}})", "'aa' is not two tokens"},
      {R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[],"unk_token":"x"}})", "'x'"},
      {R"({"model":{"type":"Unigram","vocab":[["a",0]]}})", "without an unknown token"},
      {R"({"model":{"type":"Unigram","unk_id":5,"vocab":[["a",0]]}})", "unk_id 5"},
      {R"({"model":{"type":"Unigram","unk_id":0,"vocab":[["a"]]}})", "not a text and a score"},
      {bpe(R"("normalizer":{"type":"Magic"})"), "'Magic'"},
      {bpe(R"("normalizer":{"type":"Precompiled","precompiled_charsmap":"AAA"})"), "character map"},
      {bpe(R"("normalizer":{"type":"Precompiled","precompiled_charsmap":"/////w=="})"), "character map"},
      {bpe(R"("pre_tokenizer":{"type":"UnicodeScripts"})"), "'UnicodeScripts'"},
      {bpe(R"("pre_tokenizer":{"type":"Split","pattern":{"Regex":"(a"},"behavior":"Isolated"})"), "'(a'"},
      {bpe(R"("pre_tokenizer":{"type":"Split","pattern":{"String":"a"},"behavior":"Sideways"})"), "'Sideways'"},
      {bpe(R"("pre_tokenizer":{"type":"Metaspace","replacement":""})"), "'replacement' is empty"},
      {bpe(R"("decoder":{"type":"CTC"})"), "'CTC'"},
      {bpe(R"("decoder":{"type":"Strip","content":"a","start":-1})"), "below 0"},
      {bpe(R"("post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}}]})"), "'x'"},
      {bpe(R"("post_processor":{"type":"TemplateProcessing","single":[]})"), "hold the text once"},
      {bpe(R"("added_tokens":[{"content":"x"}])"), "out of range"},
      {bpe(R"("added_tokens":[{"id":1}])"), "'content'"},
      {R"({"model":{"type":"BPE","vocab":{"\udc00":0},"merges":[]}})", ""},
  };
  for (const auto& [text, message] : cases) {
    auto tokenizer = Tokenizer::from_json(text);
    ASSERT_FALSE(tokenizer.ok()) << text;
    EXPECT_NE(tokenizer.error().message.find(message), std::string::npos) << text << "\n" << tokenizer.error().message;
  }
}

TEST(HostileTokenizer, NestedStepsAreRefusedBeforeTheStackEnds) {
  for (auto [key, list] :
       {std::pair{"normalizer", "normalizers"}, {"pre_tokenizer", "pretokenizers"}, {"decoder", "decoders"}}) {
    std::string value = R"({"type":"Sequence",")" + std::string(list) + R"(":[]})";
    for (int i = 0; i < 200; ++i) value = R"({"type":"Sequence",")" + std::string(list) + "\":[" + value + "]}";
    auto tokenizer = Tokenizer::from_json(bpe("\"" + std::string(key) + "\":" + value));
    ASSERT_FALSE(tokenizer.ok());
  }
}

/// Files that are nearly right, with bytes changed: whatever loads must also encode and decode.
TEST(HostileTokenizer, ChangedBytesNeverCrash) {
  std::mt19937 random(11);
  int loaded = 0;
  for (const char* name : {"mini-flags", "mini-spm-always", "mini-unigram-bytes", "mini-ignore-merges"}) {
    std::ifstream file(std::string(VERNIER_TEST_DATA "/tokenizers/") + name + ".json", std::ios::binary);
    const std::string whole(std::istreambuf_iterator<char>(file), {});
    ASSERT_FALSE(whole.empty());
    for (int round = 0; round < 500; ++round) {
      std::string text = whole;
      for (int change = static_cast<int>(random() % 4); change >= 0; --change) {
        size_t at = random() % text.size();
        switch (random() % 3) {
          case 0:
            text[at] = static_cast<char>(random() % 256);
            break;
          case 1:
            text.erase(at, 1 + random() % 8);
            break;
          default:
            text.insert(at, text.substr(random() % text.size(), 1 + random() % 20));
            break;
        }
        if (text.empty()) text = "{";
      }
      auto tokenizer = Tokenizer::from_json(text);
      if (!tokenizer.ok()) continue;
      ++loaded;
      auto ids =
          tokenizer->encode("<s> the THE caf\xC3\xA9 \xFF <a><b>\n\n abc 123 \xE4\xB8\xAD", {.add_special = true});
      if (ids.ok()) tokenizer->decode(*ids);
      std::vector<TokenId> every;
      for (TokenId id = 0; id < 400; ++id) every.push_back(id);
      tokenizer->decode(every, true);
    }
  }
  EXPECT_GT(loaded, 50) << "too few inputs loaded to show anything";
}

}  // namespace
}  // namespace vernier
