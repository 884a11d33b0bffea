#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace vernier {

enum class LintLevel : uint8_t {
  kNote,     ///< worth knowing
  kWarning,  ///< suspicious: loads, and may answer wrongly
  kError,    ///< does not load, or would answer wrongly
};
std::string_view name(LintLevel level);

/// A kind of defect.
struct LintCheck {
  std::string_view id;
  LintLevel level;
  std::string_view advice;  ///< what to do about it
};

/// Every kind of defect that `lint` knows.
namespace lint_checks {
inline constexpr LintCheck kFile{"file", LintLevel::kError,
                                 "download or write the file again, and compare its size and checksum with the source"};
inline constexpr LintCheck kShards{"shards", LintLevel::kError, "download the missing files, or write the index again"};
inline constexpr LintCheck kStray{"stray-file", LintLevel::kWarning, "remove what does not belong to the model"};
inline constexpr LintCheck kBeside{"other-file", LintLevel::kNote, "nothing, where the file is known"};
inline constexpr LintCheck kConfig{"config", LintLevel::kError,
                                   "correct the configuration; a model type that is not supported cannot be loaded"};
inline constexpr LintCheck kRope{"rope-context", LintLevel::kNote,
                                 "compare max_position_embeddings and the rope settings with the model's source"};
inline constexpr LintCheck kTiedHead{"tied-head", LintLevel::kWarning,
                                     "correct tie_word_embeddings, or remove the head that is not meant"};
inline constexpr LintCheck kQuantisation{"quantisation", LintLevel::kError,
                                         "correct the quantisation's description, or export the checkpoint again"};
inline constexpr LintCheck kExclusion{"exclusion", LintLevel::kWarning,
                                      "correct the name: as it stands the entry has no effect"};
inline constexpr LintCheck kMissing{
    "tensor-missing", LintLevel::kError,
    "complete the download, or correct the configuration's number of layers or experts"};
inline constexpr LintCheck kWeight{"weight", LintLevel::kError,
                                   "export the checkpoint again with a configuration that describes its tensors"};
inline constexpr LintCheck kUnusedScale{"scale-unused", LintLevel::kError,
                                        "give the scale the name that its weight's dialect has for it"};
inline constexpr LintCheck kUnusedBias{"bias-unused", LintLevel::kError,
                                       "correct the configuration's bias setting, or remove the tensor"};
inline constexpr LintCheck kUnusedInLayer{"layer-tensor-unused", LintLevel::kError,
                                          "compare the configuration's layers, experts and norms with the tensors"};
inline constexpr LintCheck kUnused{"tensor-unused", LintLevel::kWarning,
                                   "compare the configuration's number of layers and experts with the tensors"};
inline constexpr LintCheck kScaleValue{"scale-value", LintLevel::kError, "export again; a scale is finite and above 0"};
inline constexpr LintCheck kLoneCodes{"scale-missing", LintLevel::kError,
                                      "FP8 codes mean nothing without their scale: export again with it"};
inline constexpr LintCheck kNumbers{"numbers", LintLevel::kError,
                                    "export again: one number that is none makes every answer nonsense"};
inline constexpr LintCheck kCodes{"fp8-codes", LintLevel::kError,
                                  "export again from the source, with the element type that the codes have"};
inline constexpr LintCheck kZeros{"all-zero", LintLevel::kWarning,
                                  "compare with the source: an interrupted or sparse copy leaves zeros"};
inline constexpr LintCheck kMagnitude{
    "magnitude", LintLevel::kWarning,
    "compare a row with the unquantised source: a scale may be stored upside down, or "
    "be divided by where it should be multiplied"};
inline constexpr LintCheck kInputScale{"input-scale", LintLevel::kWarning,
                                       "calibrate the activations again: x = code x input_scale"};
inline constexpr LintCheck kCacheScale{"cache-scale", LintLevel::kError, "calibrate the KV cache again"};
inline constexpr LintCheck kCacheMissing{"cache-scale-missing", LintLevel::kWarning,
                                         "calibrate the KV cache: what has no scale is stored with 1.0"};
inline constexpr LintCheck kCacheOnes{
    "cache-scale-one", LintLevel::kWarning,
    "calibrate the KV cache: 1.0 everywhere is what tools write that measured nothing"};
inline constexpr LintCheck kCacheSwapped{"cache-scale-swapped", LintLevel::kWarning,
                                         "compare the scales of keys and values with a calibration of your own"};
inline constexpr LintCheck kTokenizer{"tokenizer", LintLevel::kError,
                                      "take the tokenizer's files from the source again"};
inline constexpr LintCheck kVocabulary{
    "vocabulary", LintLevel::kError,
    "take the tokenizer that belongs to this model, or the model with resized embeddings"};
inline constexpr LintCheck kSpecialId{"special-id", LintLevel::kError,
                                      "correct the token id in config.json or generation_config.json"};
inline constexpr LintCheck kSpecialToken{"special-token", LintLevel::kWarning,
                                         "take tokenizer.json and tokenizer_config.json from one source"};
inline constexpr LintCheck kTemplate{"chat-template", LintLevel::kError,
                                     "take the chat template from the source again"};
inline constexpr LintCheck kTemplates{"chat-templates", LintLevel::kWarning, "keep one of the templates"};
inline constexpr LintCheck kTrailing{"trailing-bytes", LintLevel::kWarning, "compare the file's size with the source"};
inline constexpr LintCheck kOther{"other", LintLevel::kNote, "nothing, where this is known"};
}  // namespace lint_checks

struct LintFinding {
  LintCheck check;
  std::string file;    ///< below the path that was given, where it lies there
  std::string tensor;  ///< empty where it is about no single one
  std::string message;
};

/// What was found in one checkpoint, in order of search. Plain data.
struct LintReport {
  std::string path;
  std::string format;  ///< empty where nothing could be opened
  std::vector<LintFinding> findings;

  /// A finding that is there already is not added again. Control characters of a tensor's name are made visible.
  void add(const LintCheck& check, const std::string& file, const std::string& tensor, std::string message);
  /// An error of the loader: its place is the file, and "tensor NAME: " at its start names the tensor.
  void add(const LintCheck& check, const Error& error);
  int64_t count(LintLevel level) const;
  /// Findings of one kind in one file beyond `most` are counted, not listed; 0: all are listed.
  std::string to_string(int64_t most = 5) const;
  nlohmann::json to_json() const;
};

}  // namespace vernier
