#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vernier {

/// What the metadata of a GGUF file says about its vocabulary (keys tokenizer.ggml.*), as plain data. The views point
/// into memory that `keep` holds alive. Absent keys are empty.
struct GgufVocabulary {
  /// tokenizer.ggml.token_type
  enum TokenType : int32_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

  std::string model;  ///< "gpt2", "llama", "t5", "bert", ...
  std::string pre;    ///< name of the split rule
  std::vector<std::string_view> tokens;
  std::vector<float> scores;
  std::vector<int32_t> token_types;
  std::vector<std::string_view> merges;
  std::span<const std::byte> precompiled_charsmap;
  std::optional<int64_t> bos, eos, unknown, separator, classify, mask;
  std::optional<bool> add_bos, add_eos, add_space_prefix, add_separator;
  std::optional<bool> remove_extra_whitespace;
  std::shared_ptr<const void> keep;
};

}  // namespace vernier
