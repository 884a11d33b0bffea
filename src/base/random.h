#pragma once

#include <cstdint>

namespace vernier {

/// The 64-bit finaliser of MurmurHash3: a bijection in which every input bit moves every output bit. Seeds and noise
/// are made of it, so that a seed gives the same token on every machine and backend.
constexpr uint64_t fmix64(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  x ^= x >> 33;
  return x;
}

}  // namespace vernier
