#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "ops/cache_spec.h"
#include "ops/sample_spec.h"
#include "ops/step_view.h"

namespace vernier {

class MaskFiller;
struct Request;

/// One step on the host: its rows, how each sampled row is drawn, and whose they are.
struct StepInput {
  StepView view;
  std::span<const SampleSpec> specs;         ///< [sampled rows]
  std::span<const Request* const> requests;  ///< [sequences]
  std::span<const int32_t> generated;        ///< [sequences] tokens drawn before this step
  bool hidden = false;                       ///< the final hidden states of all rows are wanted too
  MaskFiller* masks = nullptr;               ///< fills the specs' masks meanwhile: wait for it before sampling
};

struct StepOutput {
  SampledRows sampled;        ///< [sampled rows]
  std::vector<float> hidden;  ///< [rows, hidden], normed; empty unless wanted
  int32_t padded_rows = 0;    ///< computed beside the step's, to fill up a shape; a device that pads none has 0
};

/// What a model must tell to be served.
struct ModelShape {
  int32_t vocab = 0;
  int32_t hidden = 0;
  int32_t max_positions = 0;      ///< what the model was made for
  std::vector<CacheSpec> layers;  ///< what each layer keeps; at least one, which may have no heads and keep nothing
  bool whole_prompts = false;     ///< a prompt is computed in one step, as its rows see each other
};

/// Runs planned steps on a device. Used by the engine thread alone.
class StepRunner {
 public:
  virtual ~StepRunner() = default;
  virtual const ModelShape& shape() const = 0;
  /// Takes cache memory for that many blocks of each class, and steps of at most `max_rows` rows. Called once, first.
  virtual Status prepare(std::span<const int32_t> class_blocks, int32_t block_tokens, int32_t max_rows) = 0;
  /// An Error is the whole step's: nothing of it counts.
  virtual Result<StepOutput> run(const StepInput& step) = 0;
  /// Of each layer, how many numbers did not fit into its cache's type. Any thread, once prepared.
  virtual std::vector<int64_t> saturated() const { return {}; }
};

}  // namespace vernier
