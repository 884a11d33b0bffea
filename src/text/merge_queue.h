#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <vector>

#include "text/flat_map.h"

namespace vernier {

/// Where a merge may happen.
struct MergePlace {
  uint64_t tie;
  uint32_t symbol;
  bool operator<(const MergePlace& other) const { return tie != other.tie ? tie < other.tie : symbol < other.symbol; }
  bool operator>(const MergePlace& other) const { return other < *this; }
};

/// A priority queue of places by rank. Places of one rank mostly arrive in order, and then cost constant time: that is
/// what keeps a megabyte of one letter linear.
class MergeQueue {
 public:
  void push(uint32_t rank, MergePlace place) {
    uint32_t& index = index_of_.insert(rank, static_cast<uint32_t>(buckets_.size()));
    if (index == buckets_.size()) buckets_.emplace_back();
    Bucket& bucket = buckets_[index];
    if (bucket.empty()) {
      bucket.run.clear();
      bucket.cursor = 0;
      ranks_.push(rank);
    }
    if (bucket.run.empty() || !(place < bucket.run.back())) {
      bucket.run.push_back(place);
    } else {
      bucket.late.push_back(place);
      std::push_heap(bucket.late.begin(), bucket.late.end(), std::greater<>());
    }
  }

  /// The first place of the lowest rank.
  std::optional<std::pair<uint32_t, MergePlace>> pop() {
    if (ranks_.empty()) return std::nullopt;
    uint32_t rank = ranks_.top();
    Bucket& bucket = buckets_[*index_of_.find(rank)];
    bool from_run =
        bucket.cursor < bucket.run.size() && (bucket.late.empty() || bucket.run[bucket.cursor] < bucket.late.front());
    MergePlace place = from_run ? bucket.run[bucket.cursor++] : bucket.late.front();
    if (!from_run) {
      std::pop_heap(bucket.late.begin(), bucket.late.end(), std::greater<>());
      bucket.late.pop_back();
    }
    if (bucket.empty()) ranks_.pop();
    return std::pair(rank, place);
  }

 private:
  struct Bucket {
    std::vector<MergePlace> run;   // in order, taken from `cursor` on
    std::vector<MergePlace> late;  // a heap of those that came out of order
    size_t cursor = 0;
    bool empty() const { return cursor == run.size() && late.empty(); }
  };

  FlatMap<uint32_t> index_of_;
  std::vector<Bucket> buckets_;
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> ranks_;  // of buckets that are not empty
};

}  // namespace vernier
