#pragma once

#include <string>
#include <string_view>

#include "api/loaded_model.h"
#include "tune/machine_limits.h"

namespace vernier {

/// In which arithmetic a machine computes the products of a step, as shares of all of them that add up to 1, and so how
/// many it can do a second.
struct ProductShares {
  double int8 = 0, bf16 = 0, f32 = 0;

  /// "bf16", "bf16 and int8"
  std::string name() const;
  /// Operations a second; 0 where the rate of a part was not measured.
  double limit(const MachineLimits& limits) const;
};

/// What a kernel of products multiplies in, by its name.
double ProductShares::*arithmetic_of(std::string_view kernel);

/// Of the parameters that multiply every token in a step of `rows`; of a model without any all is int8.
ProductShares product_shares(const LoadedModel& model, int64_t rows);

}  // namespace vernier
