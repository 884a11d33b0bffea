#pragma once

#include <span>

#include "audit/numerics_report.h"
#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "engine/sequence_runner.h"
#include "ops/backend.h"

namespace vernier {

/// What is verified, beside the model. All backends outlive the call.
struct NumericsRequest {
  Backend& tested;
  Backend* unquantised = nullptr;  ///< the same under exact numerics; null where `tested` is exact
  std::vector<int32_t> prompt;
  RunnerOptions runner;
};

/// Runs a prompt through a decoder, and every op of it on the tested backend and in float64 on the same inputs. An op
/// outside its bound is a row of the report that did not pass, never an error. Shows progress.
Result<NumericsReport> verify_numerics(const Checkpoint& checkpoint, const NumericsRequest& request);

}  // namespace vernier
