#pragma once

#include "testing/golden_model.h"
#include "testing/step_driver.h"

namespace vernier::testing {

/// The largest difference between the logits of the golden's prompts, each fed whole, and the reference's, of the
/// spread of these; NaN if a logit is none.
inline double golden_error(Backend& backend, const Decoder& decoder, const Golden& golden) {
  StepDriver driver(backend, cache_specs(decoder.spec(), CodecId::kF32),
                    {.sequences = golden.prompts.size(), .max_rows = 128});
  driver.begin(golden.prompts);
  const std::vector<float> logits = *driver.ops().read(decoder.head(driver.ops(), decoder.forward(driver.ops())));
  double error = 0;
  size_t at = 0;
  for (const auto& expected : golden.logits) {
    for (float number : expected) {
      const double difference = std::abs(double{logits.at(at++)} - number);
      if (!(difference <= error)) error = difference;
    }
  }
  return error / golden.spread;
}

}  // namespace vernier::testing
