#include "server/unique_id.h"

#include <atomic>
#include <cstdint>
#include <random>

#include "base/random.h"

namespace vernier {

std::string unique_id(std::string_view prefix) {
  static const uint64_t process = [] {
    std::random_device entropy;
    return uint64_t{entropy()} << 32 | entropy();
  }();
  static std::atomic<uint64_t> counter{0};
  constexpr std::string_view kLetters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  // fmix64 is a bijection, so the first half differs for each number; the second makes other processes unlikely.
  const uint64_t number = counter.fetch_add(1, std::memory_order_relaxed);
  std::string id(prefix);
  for (uint64_t half : {fmix64(process + number), fmix64(process ^ ~number)}) {
    for (int i = 0; i < 12; ++i) {
      id += kLetters[half % kLetters.size()];
      half /= kLetters.size();
    }
  }
  return id;
}

}  // namespace vernier
