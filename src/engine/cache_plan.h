#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/load_report.h"
#include "models/decoder_spec.h"

namespace vernier {

/// What to do where a scaled type has no scale for a layer.
enum class MissingScale : uint8_t {
  kWarn,   ///< 1, and a note that names the layers
  kOne,    ///< 1, in silence
  kError,  ///< refuse
};

/// What is asked of the cache. What is not said follows from the checkpoint.
struct CacheOptions {
  std::optional<CodecId> stored;  ///< nothing: what the checkpoint was made for, else f16
  FreshRows fresh = FreshRows::kStored;
  bool skip_windows = false;     ///< layers with a window keep 16 bits
  std::vector<int> skip_layers;  ///< and so do these
  std::string scales_file;       ///< a side-car, in place of the checkpoint's scales; empty: none
  MissingScale missing = MissingScale::kWarn;
};

/// What a checkpoint says of its cache.
struct CacheSource {
  std::optional<std::string> type;  ///< "fp8"; "": 16 bits, said so
  std::string type_origin;          ///< "quantization_config"
  std::vector<CacheScale> scales;
};
/// From its configuration and its tensors.
Result<CacheSource> read_cache_source(const Checkpoint& checkpoint);

/// What each layer keeps, in which type, with which scales and whence. Plain data.
struct CachePlan {
  std::vector<CacheSpec> layers;
  std::vector<std::string> notes;  ///< what a person should know: scales that are missing, or act on nothing
};

/// Every layer whose type has scales gets both: the side-car's, else the checkpoint's, else 1. Refuses a side-car for
/// another model, type or set of layers, and scales that fit no layer.
Result<CachePlan> plan_cache(const DecoderSpec& spec, const CacheOptions& options, const CacheSource& source);

/// "fp8_e4m3, k 0.03 from ..., v 0.07 from ..."; "f16".
std::string describe_cache(const CacheSpec& spec);
nlohmann::json to_json(const CacheSpec& spec);

}  // namespace vernier
