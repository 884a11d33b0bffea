#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <queue>
#include <vector>

#include "text/flat_map.h"

namespace vernier {

/// A priority queue of places (of symbols) where pairs may merge, by rank, tie and place. Places of one rank and tie
/// mostly arrive in order, and then cost constant time and four bytes: that is what keeps a megabyte of one letter
/// linear.
class MergeQueue {
 public:
  struct Place {
    uint32_t rank;
    uint64_t tie;
    uint32_t symbol;
  };

  /// `by_tie`: a tie belongs to one rank; else all ties are 0.
  explicit MergeQueue(bool by_tie) : by_tie_(by_tie) {}

  void push(const Place& place) {
    uint32_t& index = index_of_.insert(by_tie_ ? place.tie : place.rank, static_cast<uint32_t>(buckets_.size()));
    if (index == buckets_.size()) buckets_.emplace_back();
    Bucket& bucket = buckets_[index];
    if (bucket.empty()) order_.push({place.rank, index, place.tie});
    if (bucket.run.empty() || place.symbol > bucket.run.back()) {
      bucket.run.push_back(place.symbol);
    } else {
      bucket.late.push_back(place.symbol);
      std::push_heap(bucket.late.begin(), bucket.late.end(), std::greater<>());
    }
  }

  /// The first place of the lowest rank and tie.
  std::optional<Place> pop() {
    if (order_.empty()) return std::nullopt;
    const Order first = order_.top();
    Bucket& bucket = buckets_[first.bucket];
    bool from_run = !bucket.run.empty() && (bucket.late.empty() || bucket.run.front() < bucket.late.front());
    uint32_t symbol = from_run ? bucket.run.front() : bucket.late.front();
    if (from_run) {
      bucket.run.pop_front();
    } else {
      std::pop_heap(bucket.late.begin(), bucket.late.end(), std::greater<>());
      bucket.late.pop_back();
    }
    if (bucket.empty()) order_.pop();
    return Place{first.rank, first.tie, symbol};
  }

 private:
  struct Bucket {
    std::deque<uint32_t> run;    // in order; what is taken gives its memory to the ranks that come
    std::vector<uint32_t> late;  // a heap of those that came out of order
    bool empty() const { return run.empty() && late.empty(); }
  };
  struct Order {
    uint32_t rank;
    uint32_t bucket;
    uint64_t tie;
    bool operator>(const Order& other) const { return rank != other.rank ? rank > other.rank : tie > other.tie; }
  };

  bool by_tie_;
  FlatMap<uint32_t> index_of_;
  std::vector<Bucket> buckets_;
  std::priority_queue<Order, std::vector<Order>, std::greater<>> order_;  // of buckets that are not empty
};

}  // namespace vernier
