#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "tensor/codec.h"

namespace vernier {

/// Cache scales in a file of their own, beside a checkpoint that has none or instead of its own:
/// {"model_type": "llama", "kv_cache": {"dtype": "float8_e4m3fn", "scaling_factor": {RANK: {LAYER: SCALE}}}}, as SGLang
/// and vLLM read it. A SCALE is a number for keys and values alike; in our own files {"k": S, "v": S}, each a number or
/// one for each KV head.
struct CacheScaleFile {
  struct Scales {
    std::vector<float> k, v;
  };

  std::string path;
  std::string model_type;  ///< empty: not said
  CodecId stored = CodecId::kE4M3Tensor;
  std::map<int, Scales> layers;

  /// Refuses what it does not understand, numbers that are no scales, and ranks that disagree.
  static Result<CacheScaleFile> read(const std::string& path);
  Status write() const;
};

}  // namespace vernier
