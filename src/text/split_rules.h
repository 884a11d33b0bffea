#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"

namespace vernier {

/// What a GGUF file's tokenizer.ggml.pre stands for.
struct SplitRule {
  PreTokenizers steps;
  Normalizers normalizers;
  bool ignore_merges = false;
  bool add_bos = false;  ///< where the file does not say
};

/// One step as other tokenizers' files describe it.
struct SplitStepText {
  enum class Kind : uint8_t { kPattern, kEachDigit, kDigits, kMarks };
  Kind kind;
  std::string_view pattern;  ///< kPattern: a regular expression whose matches and gaps are pieces
};

/// The same rule, to be written down. Byte-level encoding follows its steps.
struct SplitRuleText {
  std::vector<SplitStepText> steps;
  bool compose = false;  ///< NFC first
  bool ignore_merges = false;
  bool add_bos = false;
};
Result<SplitRuleText> split_rule_text(std::string_view name);
/// Of each rule the name that it is best known by.
std::vector<std::string_view> split_rule_names();

/// The rule of that name, for a byte-level vocabulary. A file without a name has "default". A name that is not known is
/// an error that says so: another rule would give other ids without a word.
Result<SplitRule> find_split_rule(std::string_view name);

}  // namespace vernier
