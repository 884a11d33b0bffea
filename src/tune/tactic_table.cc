#include "tune/tactic_table.h"

namespace vernier {
namespace {

constexpr size_t kFirstSlots = 256;

}  // namespace

TacticTable::TacticTable() {
  made_.push_back(std::make_unique<Slots>(kFirstSlots));
  slots_.store(made_.back().get(), std::memory_order_release);
}

void TacticTable::place(Slots& slots, TacticKey key, const Tactic& tactic) {
  const uint64_t high = key.high | kTaken;
  for (size_t at = key.low & slots.mask;; at = (at + 1) & slots.mask) {
    Slot& slot = slots.all[at];
    const uint64_t there = slot.high.load(std::memory_order_relaxed);
    if (there != 0 && (there != high || slot.low != key.low)) continue;
    if (there == 0) slot.low = key.low;
    slot.tactic.store(&tactic, std::memory_order_release);
    slot.high.store(high, std::memory_order_release);
    return;
  }
}

void TacticTable::put(TacticKey key, const Tactic& tactic) {
  Slots* slots = made_.back().get();
  if (find(key) != nullptr) {
    place(*slots, key, tactic);
    return;
  }
  ++size_;
  if (2 * size_ > slots->mask + 1) {
    auto larger = std::make_unique<Slots>(2 * (slots->mask + 1));
    for (size_t at = 0; at <= slots->mask; ++at) {
      const Slot& slot = slots->all[at];
      const uint64_t high = slot.high.load(std::memory_order_relaxed);
      if (high != 0) place(*larger, {high, slot.low}, *slot.tactic.load(std::memory_order_relaxed));
    }
    place(*larger, key, tactic);
    made_.push_back(std::move(larger));
    slots_.store(made_.back().get(), std::memory_order_release);
    return;
  }
  place(*slots, key, tactic);
}

}  // namespace vernier
