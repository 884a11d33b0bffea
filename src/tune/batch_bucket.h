#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace vernier {

/// Steps of as many rows share a tactic: the next power of two, at most this.
inline constexpr int64_t kMostBatchBucket = 1024;
inline constexpr int kBatchBuckets = 11;

/// Which of them: 0 for 1 row, 1 for 2, 2 for 3 and 4, ...
constexpr int batch_bucket(int64_t rows) {
  const int64_t counted = std::clamp<int64_t>(rows, 1, kMostBatchBucket);
  return static_cast<int>(std::bit_width(static_cast<uint64_t>(counted - 1)));
}
/// The rows that a bucket is measured with: its most.
constexpr int64_t bucket_rows(int bucket) {
  return int64_t{1} << bucket;
}

static_assert(bucket_rows(batch_bucket(kMostBatchBucket)) == kMostBatchBucket);
static_assert(batch_bucket(kMostBatchBucket) + 1 == kBatchBuckets);

}  // namespace vernier
