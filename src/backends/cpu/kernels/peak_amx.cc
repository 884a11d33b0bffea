#include <immintrin.h>

#include "backends/cpu/kernels/peak.h"

namespace vernier::amx {
namespace {

/// Eight tiles of 16 rows of 64 bytes: six sums, two of what is multiplied.
void configure_tiles() {
  struct alignas(64) Shapes {
    uint8_t palette = 1;
    uint8_t reserved[15] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } shapes;
  asm volatile("" ::: "memory");  // the compiler does not see that all of it is read
  _tile_loadconfig(&shapes);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
}

int64_t int8_dot(int64_t rounds) {
  configure_tiles();
  for (int64_t r = 0; r < rounds; ++r) {
    _tile_dpbsud(0, 6, 7);
    _tile_dpbsud(1, 6, 7);
    _tile_dpbsud(2, 6, 7);
    _tile_dpbsud(3, 6, 7);
    _tile_dpbsud(4, 6, 7);
    _tile_dpbsud(5, 6, 7);
  }
  _tile_release();
  return rounds * 6 * (16 * 16 * 64 * 2);
}

int64_t bf16_dot(int64_t rounds) {
  configure_tiles();
  for (int64_t r = 0; r < rounds; ++r) {
    _tile_dpbf16ps(0, 6, 7);
    _tile_dpbf16ps(1, 6, 7);
    _tile_dpbf16ps(2, 6, 7);
    _tile_dpbf16ps(3, 6, 7);
    _tile_dpbf16ps(4, 6, 7);
    _tile_dpbf16ps(5, 6, 7);
  }
  _tile_release();
  return rounds * 6 * (16 * 16 * 32 * 2);
}

}  // namespace

PeakLoops peak_loops() {
  PeakLoops loops = avx512::peak_loops();
  loops.int8_dot = int8_dot;
  loops.bf16_dot = bf16_dot;
  return loops;
}

}  // namespace vernier::amx
