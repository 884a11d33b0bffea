#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace vernier {

/// Scales of one layer's keys (or values) in the cache, one for all heads or one for each, and where they came from:
/// stored = round(x / scale), read = stored * scale. Each is a finite number above 0; nothing else can be held.
class KvScale {
 public:
  /// One for all heads. CHECKs the number.
  KvScale(float all, std::string origin = "given");
  /// Refuses numbers that are no scales, and an empty list.
  static Result<KvScale> make(std::vector<float> values, std::string origin);

  float of(int head) const { return values_.size() == 1 ? values_.front() : values_.at(static_cast<size_t>(head)); }
  std::span<const float> values() const { return values_; }
  bool per_head() const { return values_.size() > 1; }
  const std::string& origin() const { return origin_; }
  std::string to_string() const;  ///< "0.03 from ...k_scale"

 private:
  KvScale(std::vector<float> values, std::string origin) : values_(std::move(values)), origin_(std::move(origin)) {}

  std::vector<float> values_;
  std::string origin_;
};

}  // namespace vernier
