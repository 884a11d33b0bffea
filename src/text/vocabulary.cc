#include "text/vocabulary.h"

#include <algorithm>
#include <cstring>

namespace vernier {

uint64_t hash_text(std::string_view text) {
  constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15ull;
  auto fold = [](uint64_t a, uint64_t b) {
    auto product = static_cast<unsigned __int128>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  };
  uint64_t hash = text.size() * kMultiplier;
  const char* data = text.data();
  size_t left = text.size();
  while (left >= 8) {
    uint64_t word;
    std::memcpy(&word, data, 8);
    hash = fold(hash ^ word, kMultiplier);
    data += 8;
    left -= 8;
  }
  uint64_t tail = 0;
  if (left > 0) std::memcpy(&tail, data, left);
  return fold(hash ^ tail, kMultiplier ^ 0x5851F42D4C957F2Dull);
}

Vocabulary::Vocabulary(std::vector<std::string_view> texts, std::shared_ptr<const void> keep)
    : texts_(std::move(texts)), keep_(std::move(keep)) {
  size_t slots = 16;
  while (slots < texts_.size() * 2) slots *= 2;
  slots_.assign(slots, Slot());
  mask_ = slots - 1;
  for (size_t id = 0; id < texts_.size(); ++id) {
    if (texts_[id].data() == nullptr) continue;
    uint64_t hash = hash_text(texts_[id]);
    auto tag = static_cast<uint32_t>(hash >> 32);
    size_t i = hash & mask_;
    while (slots_[i].id_plus_one != 0 && !(slots_[i].tag == tag && texts_[slots_[i].id_plus_one - 1] == texts_[id])) {
      i = (i + 1) & mask_;
    }
    slots_[i] = {tag, static_cast<uint32_t>(id + 1)};
  }
}

TokenId Vocabulary::find_hashed(std::string_view text, uint64_t hash) const {
  auto tag = static_cast<uint32_t>(hash >> 32);
  for (size_t i = hash & mask_;; i = (i + 1) & mask_) {
    const Slot& slot = slots_[i];
    if (slot.id_plus_one == 0) return -1;
    if (slot.tag == tag && texts_[slot.id_plus_one - 1] == text) return static_cast<TokenId>(slot.id_plus_one - 1);
  }
}

std::optional<TokenId> Vocabulary::find(std::string_view text) const {
  TokenId id = find_hashed(text, hash_text(text));
  return id < 0 ? std::nullopt : std::optional(id);
}

void Vocabulary::find_all(std::span<const std::string_view> texts, std::span<TokenId> ids) const {
  constexpr size_t kBlock = 32;  // misses in flight
  uint64_t hashes[kBlock];
  for (size_t begin = 0; begin < texts.size(); begin += kBlock) {
    size_t count = std::min(kBlock, texts.size() - begin);
    for (size_t i = 0; i < count; ++i) {
      hashes[i] = hash_text(texts[begin + i]);
      __builtin_prefetch(&slots_[hashes[i] & mask_]);
    }
    // A slot that was displaced is not followed: it costs a miss later, and is rare.
    for (size_t i = 0; i < count; ++i) {
      uint32_t id_plus_one = slots_[hashes[i] & mask_].id_plus_one;
      if (id_plus_one != 0) __builtin_prefetch(&texts_[id_plus_one - 1]);
    }
    for (size_t i = 0; i < count; ++i) {
      uint32_t id_plus_one = slots_[hashes[i] & mask_].id_plus_one;
      if (id_plus_one != 0) __builtin_prefetch(texts_[id_plus_one - 1].data());
    }
    for (size_t i = 0; i < count; ++i) ids[begin + i] = find_hashed(texts[begin + i], hashes[i]);
  }
}

}  // namespace vernier
