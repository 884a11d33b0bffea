#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "ops/attn_spec.h"

namespace vernier {

/// Cosines and sines of a step's positions, one row for each row of the step, made once a step for each rope that its
/// layers use. One thread.
class RopeRows {
 public:
  struct Table {
    int pairs = 0;
    std::vector<float> cosines;  // [rows, pairs]
    std::vector<float> sines;    // [rows, pairs]
  };

  /// Forgets the last step; `positions` must stay valid through this one.
  void begin(std::span<const int32_t> positions);
  const Table& table(const RopeSpec& spec, ThreadPool& pool);

 private:
  struct Entry {
    RopeSpec spec;
    std::vector<float> frequencies;
    Table table;
    bool current = false;
  };

  std::span<const int32_t> positions_;
  std::vector<std::unique_ptr<Entry>> entries_;
};

}  // namespace vernier
