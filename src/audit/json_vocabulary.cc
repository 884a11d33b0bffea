#include "audit/json_vocabulary.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "audit/evaluate.h"
#include "checkpoint/byte_reader.h"
#include "text/bpe_model.h"
#include "text/split_rules.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace vernier {

namespace {

using Json = nlohmann::json;

/// What the views of a vocabulary point into.
struct OwnedTexts {
  std::vector<std::string> tokens, merges;
};

/// Digits in runs, contractions, marks, spaces, line ends, scripts with and without case, letters and marks apart.
constexpr std::string_view kProbe =
    "It's 3 or 42, 1234567890 I'LL don't  DON'T we've\n\n\n  x=1;\r\n\tif (a!=b){c+=d}//e\n \xC3\xA9t\xC3\xA9 "
    "e\xCC\x81 "
    "\xD0\x9F\xD1\x80\xD0\xB8\xD0\xB2\xD0\xB5\xD1\x82 \xE4\xBD\xA0\xE5\xA5\xBD\xE4\xB8\x96\xE7\x95\x8C\xE3\x80\x82"
    "\xE3\x81\x93\xE3\x82\x93 \xED\x95\x9C\xEA\xB5\xAD \xE0\xA4\xA8\xE0\xA4\xAE\xE0\xA4\xB8\xE0\xA5\x8D "
    "\xF0\x9F\x98\x80"
    "\xF0\x9F\x91\xA8\xE2\x80\x8D\xF0\x9F\x91\xA9 ...!?--- $%^ CamelCaseWORDs iPhone 12.5% \xC2\xBD \xD9\xA3\xD9\xA4 "
    "_a_b";
constexpr size_t kProbedText = 16384;
constexpr size_t kLongestRun = 40;  // of spaces or line ends, for which there are pieces
constexpr EncodeOptions kPlain{.add_special = false, .parse_special = false};

Error not_held(const std::string& path, const std::string& what) {
  return Error{
      ErrorCode::kUnsupported,
      fmt::format("{}: a GGUF file is written with a BPE vocabulary of bytes or of SentencePiece's pieces; give "
                  "--out a folder",
                  what),
      path};
}

/// Ids to texts and kinds; ids that nothing has become unused ones.
Status read_tokens(const Json& tree, size_t rows, const std::string& path, OwnedTexts& texts, GgufVocabulary& made) {
  texts.tokens.resize(rows);
  made.token_types.assign(rows, GgufVocabulary::kUnused);
  auto put = [&](const Json& id, const std::string& text, int32_t type) -> Status {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= rows) {
      return corrupt("{}: token {} has the id {}, and the model has {} tokens", path, printable(text), id.dump(), rows);
    }
    texts.tokens[id.get<size_t>()] = text;
    made.token_types[id.get<size_t>()] = type;
    return {};
  };
  for (const auto& [text, id] : tree["model"]["vocab"].items()) {
    TRY_STATUS(put(id, text, GgufVocabulary::kNormal));
  }
  for (const Json& added : tree.value("added_tokens", Json::array())) {
    for (const char* flag : {"lstrip", "rstrip", "single_word"}) {
      if (added.value(flag, false)) return not_held(path, fmt::format("a token is added with '{}'", flag));
    }
    const bool special = added.value("special", false);
    TRY_STATUS(put(added.value("id", Json()), added.value("content", std::string()),
                   special ? GgufVocabulary::kControl : GgufVocabulary::kUserDefined));
  }
  for (size_t id = 0; id < rows; ++id) {
    if (made.token_types[id] == GgufVocabulary::kUnused) texts.tokens[id] = fmt::format("[PAD{}]", id);
  }
  made.tokens.assign(texts.tokens.begin(), texts.tokens.end());
  return {};
}

Status read_merges(const Json& model, const std::string& path, OwnedTexts& texts, GgufVocabulary& made) {
  for (const Json& merge : model.value("merges", Json::array())) {
    if (merge.is_string()) {
      texts.merges.push_back(merge.get<std::string>());
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      texts.merges.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
    } else {
      return corrupt("{}: the merge {} is no pair of texts", path, printable(merge.dump()));
    }
  }
  made.merges.assign(texts.merges.begin(), texts.merges.end());
  return {};
}

/// A rule's steps, one a line, with what else belongs to it.
std::string signature(const SplitRuleText& rule) {
  std::string text = fmt::format("{} {}\n", rule.compose, rule.ignore_merges);
  for (const SplitStepText& step : rule.steps)
    text += fmt::format("{} {}\n", static_cast<int>(step.kind), step.pattern);
  return text;
}

/// The same of a tokenizer's own description, as far as it is made of such steps.
SplitRuleText described_rule(const Json& tree, const SplitRuleText& gpt2) {
  using Kind = SplitStepText::Kind;
  SplitRuleText rule;
  const Json none;
  auto member = [&](const Json& of, const char* key) -> const Json& {
    return of.is_object() && of.contains(key) ? of.at(key) : none;
  };
  rule.compose = member(member(tree, "normalizer"), "type") == "NFC";
  rule.ignore_merges = member(member(tree, "model"), "ignore_merges") == true;
  const Json& whole = member(tree, "pre_tokenizer");
  const bool is_list = member(whole, "type") == "Sequence" && member(whole, "pretokenizers").is_array();
  const size_t count = is_list ? whole.at("pretokenizers").size() : 1;
  for (size_t i = 0; i < count; ++i) {
    const Json& step = is_list ? whole.at("pretokenizers").at(i) : whole;
    const Json& regex = member(member(step, "pattern"), "Regex");
    if (member(step, "type") == "Split" && regex.is_string()) {
      rule.steps.push_back({Kind::kPattern, regex.get_ref<const std::string&>()});
    } else if (member(step, "type") == "Digits") {
      rule.steps.push_back({member(step, "individual_digits") == true ? Kind::kEachDigit : Kind::kDigits, {}});
    } else if (member(step, "type") == "Punctuation") {
      rule.steps.push_back({Kind::kMarks, {}});
    } else if (member(step, "type") == "ByteLevel" && member(step, "use_regex") != false) {
      rule.steps.push_back(gpt2.steps.front());
    }
  }
  return rule;
}

/// Names of rules, those first that the tokenizer's description spells.
Result<std::vector<std::string_view>> rules_to_try(const Json& tree) {
  TRY_BIND(const SplitRuleText gpt2, split_rule_text("gpt-2"));
  const std::string described = signature(described_rule(tree, gpt2));
  std::vector<std::string_view> names = split_rule_names();
  std::ranges::stable_partition(names, [&](std::string_view name) {
    const Result<SplitRuleText> rule = split_rule_text(name);
    return rule.ok() && signature(*rule) == described;
  });
  return names;
}

/// Texts that vocabularies differ in, and the ids that a tokenizer makes of them. None begins with a space: some
/// descriptions put no further one before it, and SentencePiece itself and readers of GGUF files do.
class Probe {
 public:
  static Result<Probe> make(const Tokenizer& tokenizer) {
    Probe probe;
    const std::string_view prose = built_in_text().substr(built_in_text().find_first_not_of(' '), kProbedText);
    probe.texts_ = {std::string(kProbe), std::string(prose)};
    std::string runs;
    for (size_t count = 1; count <= kLongestRun; ++count) {
      runs += "a" + std::string(count, ' ') + "b" + std::string(count, '\n') + std::string(count, '\t');
    }
    probe.texts_.push_back(runs);
    for (const std::string& text : probe.texts_) {
      TRY_BIND(std::vector<int32_t> ids, tokenizer.encode(text, kPlain));
      probe.ids_.push_back(std::move(ids));
    }
    return probe;
  }

  /// Whether a reader of that vocabulary makes the same ids.
  bool agrees(const GgufVocabulary& made) const {
    const Result<Tokenizer> tried = Tokenizer::from_gguf(made);
    if (!tried.ok()) return false;
    for (size_t i = 0; i < texts_.size(); ++i) {
      const Result<std::vector<int32_t>> ids = tried->encode(texts_[i], kPlain);
      if (!ids.ok() || *ids != ids_[i]) return false;
    }
    return true;
  }

 private:
  std::vector<std::string> texts_;
  std::vector<std::vector<int32_t>> ids_;
};

/// Takes the first rule that cuts texts as the tokenizer does.
Status find_rule(const Probe& probe, const Json& tree, const std::string& path, GgufVocabulary& made) {
  TRY_BIND(const std::vector<std::string_view> names, rules_to_try(tree));
  for (std::string_view name : names) {
    made.pre = name;
    if (probe.agrees(made)) return {};
  }
  return not_held(path, "no split rule that GGUF files name cuts texts as this tokenizer does");
}

/// Merges as scores of what they make. A reader of scores joins any two pieces whose texts make a third.
class Scores {
 public:
  Scores(const OwnedTexts& texts, GgufVocabulary& made)
      : texts_(texts), made_(made), first_(texts.tokens.size(), kNone), last_(texts.tokens.size()) {
    for (size_t id = 0; id < texts.tokens.size(); ++id) {
      if (made.token_types[id] != GgufVocabulary::kUnused) ids_.emplace(texts.tokens[id], id);
    }
  }

  /// The first pair that is joined in one of the two and not in the other; empty: none.
  std::string difference() {
    std::vector<size_t> listed(texts_.tokens.size());
    for (size_t rank = 0; rank < texts_.merges.size(); ++rank) {
      const std::string& merge = texts_.merges[rank];
      const size_t space = merge.find(' ', 1);
      const auto joined = ids_.find(merge.substr(0, space) + merge.substr(space + 1));
      if (joined == ids_.end()) return fmt::format("the merge {} makes no token", printable(merge));
      ++listed[joined->second];
      first_[joined->second] = std::min(first_[joined->second], rank);
      last_[joined->second] = rank;
    }
    for (size_t id = 0; id < texts_.tokens.size(); ++id) {
      if (made_.token_types[id] != GgufVocabulary::kNormal || listed[id] == splits(texts_.tokens[id])) continue;
      return fmt::format("of the ways to put token {} together only some are merges", printable(texts_.tokens[id]));
    }
    return {};
  }

  /// Falling with the id, as most of SentencePiece's are.
  std::vector<float> by_id() const {
    std::vector<float> scores(first_.size());
    for (size_t id = 0; id < scores.size(); ++id) scores[id] = -static_cast<float>(id);
    return scores;
  }
  /// Falling with the place of a piece's first merge. Pieces whose merges mingle, as those of runs of spaces do, had
  /// one score where the merges were made of scores.
  std::vector<float> by_merge() const {
    std::vector<size_t> order;
    for (size_t id = 0; id < first_.size(); ++id) {
      if (first_[id] != kNone) order.push_back(id);
    }
    std::ranges::sort(order, {}, [&](size_t id) { return first_[id]; });
    std::vector<float> scores(first_.size(), -static_cast<float>(texts_.merges.size()));
    size_t begin = 0, end = 0;  // merges of one score
    for (size_t id : order) {
      if (first_[id] >= end) begin = first_[id];
      end = std::max(end, last_[id] + 1);
      scores[id] = -static_cast<float>(begin);
    }
    return scores;
  }

 private:
  static constexpr size_t kNone = SIZE_MAX;

  size_t splits(std::string_view text) const {
    size_t count = 0;
    for (size_t cut = 1; cut < text.size(); ++cut) {
      const bool inside = (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80;
      if (!inside && ids_.contains(text.substr(0, cut)) && ids_.contains(text.substr(cut))) ++count;
    }
    return count;
  }

  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return hash_text(text); }
  };
  const OwnedTexts& texts_;
  GgufVocabulary& made_;
  std::unordered_map<std::string, size_t, Hash, std::equal_to<>> ids_;
  std::vector<size_t> first_, last_;  // merge that makes each token
};

/// Kinds of tokens that a tokenizer.json tells by their texts.
void mark_pieces(const Json& model, const OwnedTexts& texts, GgufVocabulary& made) {
  const Json unknown = model.value("unk_token", Json());
  for (size_t id = 0; id < texts.tokens.size(); ++id) {
    const std::string& text = texts.tokens[id];
    if (unknown == text) {
      made.unknown = static_cast<int64_t>(id);
      made.token_types[id] = GgufVocabulary::kUnknown;
    } else if (text.size() == 6 && text.starts_with("<0x") && text.ends_with('>') &&
               made.token_types[id] == GgufVocabulary::kNormal) {
      made.token_types[id] = GgufVocabulary::kByte;
    }
  }
}

/// Runs of spaces that were added to a vocabulary are spaces in these files.
void spell_runs(OwnedTexts& texts, GgufVocabulary& made) {
  for (size_t id = 0; id < texts.tokens.size(); ++id) {
    std::string& text = texts.tokens[id];
    if (made.token_types[id] != GgufVocabulary::kUserDefined) continue;
    std::string spaces;
    while (std::string_view(text).substr(spaces.size() * kSpaceMark.size()).starts_with(kSpaceMark)) spaces += ' ';
    if (spaces.empty() || spaces.size() * kSpaceMark.size() != text.size()) continue;
    text = spaces;
    made.tokens[id] = text;
  }
}

/// Scores in place of merges, and whether a space is put before a text.
Status find_scores(const Probe& probe, const Json& model, const std::string& path, OwnedTexts& texts,
                   GgufVocabulary& made) {
  made.model = "llama";
  made.pre = "default";
  made.merges.clear();
  mark_pieces(model, texts, made);
  Scores scores(texts, made);
  if (const std::string difference = scores.difference(); !difference.empty()) return not_held(path, difference);
  spell_runs(texts, made);
  for (const std::vector<float>& tried : {scores.by_id(), scores.by_merge()}) {
    for (bool prefix : {false, true}) {
      made.scores = tried;
      made.add_space_prefix = prefix;
      if (probe.agrees(made)) return {};
    }
  }
  return not_held(path, "no scores make this tokenizer's ids");
}

/// What stands around a text, and which tokens end one.
Status read_ends(const Checkpoint& checkpoint, const Tokenizer& tokenizer, GgufVocabulary& made) {
  TRY_BIND(const std::vector<int32_t> empty, tokenizer.encode("", {.add_special = true}));
  TRY_BIND(const std::vector<int32_t> plain, tokenizer.encode("a", {.add_special = false}));
  TRY_BIND(const std::vector<int32_t> whole, tokenizer.encode("a", {.add_special = true}));
  const GenerationDefaults& generation = checkpoint.generation();
  if (generation.bos_id) made.bos = *generation.bos_id;
  const Json named = checkpoint.tokenizer().tokenizer_config.is_object()
                         ? checkpoint.tokenizer().tokenizer_config.value("eos_token", Json())
                         : Json();
  const Json text = named.is_object() ? named.value("content", Json()) : named;
  if (text.is_string()) {
    if (const auto id = tokenizer.find_token(text.get<std::string>())) made.eos = *id;
  }
  if (!made.eos && !generation.eos_ids.empty()) made.eos = generation.eos_ids.front();
  const bool before = whole.size() > plain.size() && whole.front() != plain.front();
  if (before) made.bos = whole.front();
  made.add_bos = before;
  made.add_eos = whole.size() > plain.size() && whole.back() != plain.back();
  if (*made.add_eos) made.eos = whole.back();
  return {};
}

}  // namespace

Result<GgufVocabulary> vocabulary_of_json(const Checkpoint& checkpoint) {
  const std::string& path = checkpoint.tokenizer().tokenizer_json;
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  TRY_BIND(const Tokenizer tokenizer, Tokenizer::from_json(bytes));  // which checks the file
  const Json tree = Json::parse(bytes, nullptr, false);
  const Json model = tree.is_object() ? tree.value("model", Json()) : Json();
  if (!model.is_object() || !model.value("vocab", Json()).is_object() || model.value("type", Json("BPE")) != "BPE") {
    return not_held(path, "the tokenizer is of another kind");
  }
  const auto embedding = std::ranges::find_if(
      checkpoint.tensors(), [](const StoredTensor& tensor) { return tensor.name.ends_with("embed_tokens.weight"); });
  const bool has_rows = embedding != checkpoint.tensors().end() && !embedding->extents.empty();
  const size_t rows = has_rows ? static_cast<size_t>(embedding->extents[0]) : tokenizer.vocabulary_size();
  auto texts = std::make_shared<OwnedTexts>();
  GgufVocabulary made;
  made.model = "gpt2";
  TRY_STATUS(read_tokens(tree, rows, path, *texts, made));
  TRY_STATUS(read_merges(model, path, *texts, made));
  made.keep = texts;
  TRY_STATUS(read_ends(checkpoint, tokenizer, made));
  TRY_BIND(const Probe probe, Probe::make(tokenizer));
  if (model.value("byte_fallback", false)) {
    TRY_STATUS(find_scores(probe, model, path, *texts, made));
  } else {
    TRY_STATUS(find_rule(probe, tree, path, made));
  }
  return made;
}

}  // namespace vernier
