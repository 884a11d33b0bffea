#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tune/tactic.h"

namespace vernier {

/// Keys and what is chosen for them, flat in memory. `find` takes no lock and no memory, on any thread, while one other
/// thread puts. Tactics are not owned: they outlive the table.
class TacticTable {
 public:
  TacticTable();

  const Tactic* find(TacticKey key) const noexcept {
    const Slots& slots = *slots_.load(std::memory_order_acquire);
    const uint64_t high = key.high | kTaken;
    for (size_t at = key.low & slots.mask;; at = (at + 1) & slots.mask) {
      const Slot& slot = slots.all[at];
      const uint64_t there = slot.high.load(std::memory_order_acquire);
      if (there == 0) return nullptr;
      if (there == high && slot.low == key.low) return slot.tactic.load(std::memory_order_acquire);
    }
  }

  /// In place of what was there. One thread at a time.
  void put(TacticKey key, const Tactic& tactic);
  size_t size() const { return size_; }

 private:
  static constexpr uint64_t kTaken = 1;  ///< set in every key, so that 0 is a free slot

  struct Slot {
    std::atomic<uint64_t> high{0};
    uint64_t low = 0;
    std::atomic<const Tactic*> tactic{nullptr};
  };
  struct Slots {
    explicit Slots(size_t count) : all(std::make_unique<Slot[]>(count)), mask(count - 1) {}
    std::unique_ptr<Slot[]> all;
    size_t mask;  ///< of a power of two, at most half of it taken
  };
  static void place(Slots& slots, TacticKey key, const Tactic& tactic);

  std::vector<std::unique_ptr<Slots>> made_;  ///< the last is in use; a reader may still be in one before it
  std::atomic<const Slots*> slots_;
  size_t size_ = 0;
};

}  // namespace vernier
