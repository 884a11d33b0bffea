#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vernier {

inline uint64_t mix_hash(uint64_t key) {
  key ^= key >> 32;
  key *= 0xD6E8FEB86659FD93ull;
  key ^= key >> 32;
  key *= 0xD6E8FEB86659FD93ull;
  return key ^ key >> 32;
}

/// A hash map from 64-bit keys to small values in one array, probed in order; at most two thirds full. Keys are any
/// value but ~0. Nothing is ever erased.
template <class Value>
class FlatMap {
 public:
  explicit FlatMap(size_t expected = 8) { resize(expected); }

  const Value* find(uint64_t key) const {
    for (size_t i = mix_hash(key) & mask_;; i = (i + 1) & mask_) {
      if (slots_[i].key == key) return &slots_[i].value;
      if (slots_[i].key == kFree) return nullptr;
    }
  }
  Value* find(uint64_t key) { return const_cast<Value*>(static_cast<const FlatMap&>(*this).find(key)); }

  /// The value of `key`, made from `value` if the key is new.
  Value& insert(uint64_t key, Value value) {
    if ((size_ + 1) * 3 > slots_.size() * 2) grow();
    size_t i = mix_hash(key) & mask_;
    while (slots_[i].key != kFree && slots_[i].key != key) i = (i + 1) & mask_;
    if (slots_[i].key == kFree) {
      slots_[i] = {key, value};
      ++size_;
    }
    return slots_[i].value;
  }
  size_t size() const { return size_; }
  /// Brings the place of a key that will be asked for into the cache.
  void prefetch(uint64_t key) const { __builtin_prefetch(&slots_[mix_hash(key) & mask_], 1); }

 private:
  static constexpr uint64_t kFree = ~uint64_t{0};
  struct Slot {
    uint64_t key = kFree;
    Value value{};
  };

  void resize(size_t expected) {
    size_t slots = 8;
    while (slots * 2 < expected * 3) slots *= 2;
    slots_.assign(slots, Slot());
    mask_ = slots - 1;
  }
  void grow() {
    std::vector<Slot> old = std::move(slots_);
    slots_.assign(old.size() * 2, Slot());
    mask_ = slots_.size() - 1;
    size_ = 0;
    for (const Slot& slot : old) {
      if (slot.key != kFree) insert(slot.key, slot.value);
    }
  }

  std::vector<Slot> slots_;
  size_t mask_ = 0;
  size_t size_ = 0;
};

}  // namespace vernier
