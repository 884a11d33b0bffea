#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/backend_choice.h"
#include "api/kernel_fallbacks.h"
#include "api/loaded_encoder.h"
#include "api/loaded_model.h"
#include "app/tune_flags.h"
#include "base/result.h"
#include "engine/cache_plan.h"
#include "engine/sequence_runner.h"

namespace vernier {

/// The flags of every command that runs a model.
struct ModelFlags {
  std::string model;
  std::string backend = "cpu";
  int device = 0;
  std::string numerics = "fast";
  std::string kv_cache_dtype = "auto";
  std::string quantization;  ///< empty: as the checkpoint is
  bool quantize_head = false;
  std::vector<std::string> keep;
  std::vector<std::string> kv_dtype_skip;
  std::string kv_scales;
  std::string kv_scale_missing = "warn";
  std::string attention = "paged";
  std::string on_fallback = "warn";
  TuneFlags tune;
  int32_t max_model_len = 0;  ///< 0: the model's own limit, at most kDefaultContext

  static constexpr int32_t kDefaultContext = 8192;

  /// --on-fallback, for commands that run the model.
  void add_fallback_flag(CLI::App& command);
  /// Logs what --on-fallback wants to be told of; an error where it refuses.
  Status check_fallbacks(std::span<const KernelFallback> fallbacks) const;
  /// MODEL, --backend, --device, --numerics, --max-model-len, what is asked of the cache, --quantization and what it
  /// leaves.
  void add_to(CLI::App& command);
  void add_quantization_to(CLI::App& command);
  void add_backend_to(CLI::App& command);
  /// What is asked of the device, with the program's threads and instruction set.
  Result<BackendOptions> backend_options() const;
  /// What --quantization asks for, with so many threads (0: one for each core); none where it asks for nothing.
  Result<std::optional<QuantiseRequest>> quantise_request(int threads) const;
  Result<CacheOptions> cache_options() const;
  Result<int32_t> context_tokens(const DecoderSpec& spec) const;
  /// With the cache planned; tells what a person should know of it.
  Result<RunnerOptions> runner_options(const LoadedModel& model) const;
  Result<RunnerOptions> runner_options(const DecoderSpec& spec, const CacheSource& source) const;
};

/// Opens MODEL, loads it with the program's threads and instruction set, and shows progress where that takes long.
/// `same_rows`: answers are to repeat, see BackendOptions.
Result<std::unique_ptr<LoadedModel>> load_for(const ModelFlags& flags, bool same_rows = false);
Result<std::unique_ptr<LoadedEncoder>> load_encoder_for(const ModelFlags& flags, bool same_rows = false);
/// Whether MODEL is an encoder.
Result<bool> names_encoder(const ModelFlags& flags);

}  // namespace vernier
