#pragma once

#include <string_view>

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

/// The rule of that name, for a byte-level vocabulary. A file without a name has "default". A name that is not known is
/// an error that says so: another rule would give other ids without a word.
Result<SplitRule> find_split_rule(std::string_view name);

}  // namespace vernier
