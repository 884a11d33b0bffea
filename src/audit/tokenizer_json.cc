#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_map>

#include "audit/folder_files.h"
#include "text/split_rules.h"
#include "text/utf8.h"

namespace vernier {

namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump();
}

int32_t type_of(const GgufVocabulary& vocabulary, size_t id) {
  return vocabulary.token_types.empty() ? GgufVocabulary::kNormal : vocabulary.token_types[id];
}

/// Texts as tokenizer.json has them: SentencePiece's runs of spaces are marks there.
std::vector<std::string> token_texts(const GgufVocabulary& vocabulary, bool is_sentencepiece) {
  std::vector<std::string> texts(vocabulary.tokens.begin(), vocabulary.tokens.end());
  for (std::string& text : texts) {
    if (!is_sentencepiece || text.empty() || text.find_first_not_of(' ') != std::string::npos) continue;
    std::string marks;
    for (size_t i = 0; i < text.size(); ++i) marks += kSpaceMark;
    text = marks;
  }
  return texts;
}

/// {"a": 0, "b": 1}; refuses a text that stands there twice, of which a reader would forget one.
Result<std::string> vocab_object(const std::vector<std::string>& texts) {
  std::unordered_map<std::string_view, size_t> seen;
  std::string out = "{";
  for (size_t id = 0; id < texts.size(); ++id) {
    if (!is_valid_utf8(texts[id])) return corrupt("the token {} is not valid UTF-8", id);
    const auto [other, fresh] = seen.emplace(texts[id], id);
    if (!fresh)
      return unsupported("tokens {} and {} have the same text, which tokenizer.json cannot hold", other->second, id);
    out += fmt::format("{}{}:{}", id == 0 ? "" : ",", json_text(texts[id]), id);
  }
  return out + "}";
}

std::string list_of(const std::vector<std::string>& merges) {
  std::string out = "[";
  for (size_t i = 0; i < merges.size(); ++i) out += (i == 0 ? "" : ",") + json_text(merges[i]);
  return out + "]";
}

/// The merges that scores stand for: every way to put a token together, the best token first.
std::vector<std::string> merges_of_scores(const GgufVocabulary& vocabulary, const std::vector<std::string>& texts) {
  struct Merge {
    float score;
    size_t left, right;
  };
  std::unordered_map<std::string_view, size_t> ids;
  for (size_t id = 0; id < texts.size(); ++id) {
    if (type_of(vocabulary, id) == GgufVocabulary::kNormal) ids.emplace(texts[id], id);
  }
  std::vector<Merge> merges;
  for (size_t id = 0; id < texts.size(); ++id) {
    if (type_of(vocabulary, id) != GgufVocabulary::kNormal) continue;
    const std::string_view text = texts[id];
    const size_t first = merges.size();
    for (size_t cut = 1; cut < text.size(); ++cut) {
      if ((static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) continue;  // inside a character
      const auto left = ids.find(text.substr(0, cut)), right = ids.find(text.substr(cut));
      if (left != ids.end() && right != ids.end())
        merges.push_back({vocabulary.scores[id], left->second, right->second});
    }
    std::sort(merges.begin() + static_cast<std::ptrdiff_t>(first), merges.end(),
              [](const Merge& a, const Merge& b) { return std::pair(a.left, a.right) < std::pair(b.left, b.right); });
  }
  std::ranges::stable_sort(merges, std::greater<>(), &Merge::score);
  std::vector<std::string> out;
  out.reserve(merges.size());
  for (const Merge& merge : merges) out.push_back(texts[merge.left] + " " + texts[merge.right]);
  return out;
}

OrderedJson added_tokens(const GgufVocabulary& vocabulary, const std::vector<std::string>& texts) {
  OrderedJson list = OrderedJson::array();
  for (size_t id = 0; id < texts.size(); ++id) {
    const int32_t type = type_of(vocabulary, id);
    const bool special = type == GgufVocabulary::kControl || type == GgufVocabulary::kUnknown;
    if ((!special && type != GgufVocabulary::kUserDefined) || texts[id].empty()) continue;
    list.push_back({{"id", id},
                    {"content", texts[id]},
                    {"single_word", false},
                    {"lstrip", false},
                    {"rstrip", false},
                    {"normalized", false},
                    {"special", special}});
  }
  return list;
}

/// What stands before and after a text.
OrderedJson post_processor(const GgufVocabulary& vocabulary, const std::vector<std::string>& texts, bool bos,
                           bool eos) {
  OrderedJson single = OrderedJson::array(), pair = OrderedJson::array(), tokens = OrderedJson::object();
  auto add = [&](const std::optional<int64_t>& id, bool wanted, int type) {
    if (!wanted || !id || *id < 0 || static_cast<size_t>(*id) >= texts.size()) return;
    const std::string& text = texts[static_cast<size_t>(*id)];
    OrderedJson item = {{"SpecialToken", {{"id", text}, {"type_id", type}}}};
    if (type == 0) single.push_back(item);
    pair.push_back(item);
    tokens[text] = {{"id", text}, {"ids", {*id}}, {"tokens", {text}}};
  };
  for (int part : {0, 1}) {
    add(vocabulary.bos, vocabulary.add_bos.value_or(bos), part);
    OrderedJson sequence = {{"Sequence", {{"id", part == 0 ? "A" : "B"}, {"type_id", part}}}};
    if (part == 0) single.push_back(sequence);
    pair.push_back(sequence);
    add(vocabulary.eos, vocabulary.add_eos.value_or(eos), part);
  }
  if (tokens.empty()) return nullptr;
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", tokens}};
}

OrderedJson pre_tokenizer(const SplitRuleText& rule) {
  OrderedJson steps = OrderedJson::array();
  for (const SplitStepText& step : rule.steps) {
    switch (step.kind) {
      case SplitStepText::Kind::kPattern:
        steps.push_back(
            {{"type", "Split"}, {"pattern", {{"Regex", step.pattern}}}, {"behavior", "Isolated"}, {"invert", false}});
        break;
      case SplitStepText::Kind::kDigits:
      case SplitStepText::Kind::kEachDigit:
        steps.push_back({{"type", "Digits"}, {"individual_digits", step.kind == SplitStepText::Kind::kEachDigit}});
        break;
      case SplitStepText::Kind::kMarks:
        steps.push_back({{"type", "Punctuation"}, {"behavior", "Contiguous"}});
        break;
    }
  }
  steps.push_back({{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}});
  return {{"type", "Sequence"}, {"pretokenizers", steps}};
}

/// All members but the model, whose lists are too long to build as a tree.
struct Outside {
  OrderedJson normalizer, pre_tokenizer, post_processor, decoder;
};

Outside byte_level(const GgufVocabulary& vocabulary, const std::vector<std::string>& texts, const SplitRuleText& rule) {
  Outside out;
  if (rule.compose) out.normalizer = {{"type", "NFC"}};
  out.pre_tokenizer = pre_tokenizer(rule);
  out.post_processor = post_processor(vocabulary, texts, rule.add_bos, false);
  out.decoder = {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}};
  return out;
}

Outside sentencepiece(const GgufVocabulary& vocabulary, const std::vector<std::string>& texts) {
  const bool prefix = vocabulary.add_space_prefix.value_or(true);
  Outside out;
  OrderedJson normalizers = OrderedJson::array(), decoders = OrderedJson::array();
  if (prefix) normalizers.push_back({{"type", "Prepend"}, {"prepend", kSpaceMark}});
  normalizers.push_back({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpaceMark}});
  out.normalizer = {{"type", "Sequence"}, {"normalizers", normalizers}};
  out.post_processor = post_processor(vocabulary, texts, true, false);
  decoders.push_back({{"type", "Replace"}, {"pattern", {{"String", kSpaceMark}}}, {"content", " "}});
  decoders.push_back({{"type", "ByteFallback"}});
  decoders.push_back({{"type", "Fuse"}});
  if (prefix) decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  out.decoder = {{"type", "Sequence"}, {"decoders", decoders}};
  return out;
}

}  // namespace

Result<std::string> tokenizer_json(const GgufVocabulary& vocabulary) {
  const bool is_byte_level = vocabulary.model == "gpt2";
  if (!is_byte_level && (vocabulary.model != "llama" || vocabulary.scores.size() != vocabulary.tokens.size())) {
    return unsupported("a vocabulary of the kind '{}' is not written as tokenizer.json; copy the model's own",
                       vocabulary.model);
  }
  const std::vector<std::string> texts = token_texts(vocabulary, !is_byte_level);
  TRY_BIND(std::string vocab, vocab_object(texts));
  Outside outside;
  std::string merges;
  bool ignore_merges = false;
  if (is_byte_level) {
    TRY_BIND(SplitRuleText rule, split_rule_text(vocabulary.pre));
    ignore_merges = rule.ignore_merges;
    outside = byte_level(vocabulary, texts, rule);
    merges = list_of({vocabulary.merges.begin(), vocabulary.merges.end()});
  } else {
    outside = sentencepiece(vocabulary, texts);
    merges = list_of(merges_of_scores(vocabulary, texts));
  }
  const bool has_unknown = !is_byte_level && vocabulary.unknown && *vocabulary.unknown >= 0 &&
                           static_cast<size_t>(*vocabulary.unknown) < texts.size();
  const std::string unknown = has_unknown ? json_text(texts[static_cast<size_t>(*vocabulary.unknown)]) : "null";
  return fmt::format(
      R"({{"version":"1.0","truncation":null,"padding":null,"added_tokens":{},"normalizer":{},"pre_tokenizer":{},)"
      R"("post_processor":{},"decoder":{},"model":{{"type":"BPE","dropout":null,"unk_token":{},)"
      R"("continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":{},"byte_fallback":{},)"
      R"("ignore_merges":{},"vocab":{},"merges":{}}}}})",
      added_tokens(vocabulary, texts).dump(), outside.normalizer.dump(), outside.pre_tokenizer.dump(),
      outside.post_processor.dump(), outside.decoder.dump(), unknown, !is_byte_level, !is_byte_level, ignore_merges,
      vocab, merges);
}

}  // namespace vernier
