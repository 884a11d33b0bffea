#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "ops/cache_spec.h"
#include "ops/sample_spec.h"
#include "ops/step_view.h"

namespace vernier {

struct Request;

/// One step on the host: its rows, how each sampled row is drawn, and whose it is.
struct StepInput {
  StepView view;
  std::span<const SampleSpec> specs;         ///< [sampled rows]
  std::span<const Request* const> requests;  ///< [sequences]
  std::span<const int32_t> generated;        ///< [sequences] tokens generated before this step
};

/// What a model must be to be served.
struct ModelShape {
  int32_t vocab = 0;
  int32_t max_positions = 0;
  std::vector<CacheSpec> layers;  ///< what each layer keeps
};

/// Runs planned steps on a device. Used by the engine thread alone.
class StepRunner {
 public:
  virtual ~StepRunner() = default;
  virtual const ModelShape& shape() const = 0;
  /// Owns cache memory for that many blocks of each class, and steps of at most `max_rows` rows. Called once, first.
  virtual Status prepare(std::span<const int32_t> class_blocks, int32_t block_tokens, int32_t max_rows) = 0;
  /// One result for each sampled row: a row may fail alone. An Error is the whole step's: nothing of it counts.
  virtual Result<std::vector<Result<SampledToken>>> run(const StepInput& step) = 0;
};

}  // namespace vernier
