#include "ops/kv_scale.h"

#include <cmath>
#include <utility>

#include <fmt/ranges.h>

#include "base/check.h"

namespace vernier {
namespace {

bool is_scale(float value) {
  return std::isfinite(value) && value > 0;
}

}  // namespace

KvScale::KvScale(float all, std::string origin) : values_{all}, origin_(std::move(origin)) {
  CHECK(is_scale(all), "a cache scale of {}", all);
}

Result<KvScale> KvScale::make(std::vector<float> values, std::string origin) {
  if (values.empty()) return corrupt("{}: no cache scale, expected one or one for each KV head", origin);
  for (size_t i = 0; i < values.size(); ++i) {
    if (is_scale(values[i])) continue;
    return corrupt("{}: cache scale {} is {}, expected a finite number above 0{}", origin, i, values[i],
                   values[i] == -1 ? " (-1 marks a scale that was never set)" : "");
  }
  return KvScale(std::move(values), std::move(origin));
}

std::string KvScale::to_string() const {
  return fmt::format("{} from {}", fmt::join(values_, " "), origin_);
}

}  // namespace vernier
