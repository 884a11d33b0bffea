#pragma once

#include "backends/cuda/kernels/launch.h"

/// The choice of experts for few rows, in one launch with its neighbours. C++17; no header of CUDA.
namespace vernier::cuda {

/// Words of a row of x that is rounded to bf16 and laid out for codes of four bits; see lay_row.
constexpr int64_t laid_row_words(int64_t cols) {
  return (cols + 127) / 128 * 64;
}

/// route and find_places, and rows of x laid out.
struct ChooseCall {
  RouteCall route;
  PlacesCall places;
  ConstRows x;  ///< at multiples of 16 bytes
  int64_t cols = 0;
  uint32_t* laid = nullptr;  ///< [rows] of laid_row_words, at a multiple of 16 bytes; null: none
  VERNIER_COMPARED(ChooseCall)
};
LaunchCode choose(const ChooseCall& call, Stream stream);

/// The same after the rows' norm and the router's product, which is float32's or bf16's: the bits of launches of their
/// own.
struct RouterCall {
  ProductCall router;           ///< one part; its outputs are route's logits
  const float* norm = nullptr;  ///< null: none
  float norm_eps = 0;
  RouteCall route;
  PlacesCall places;
  uint32_t* laid = nullptr;     ///< of the normed rows
  uint32_t* arrived = nullptr;  ///< a zero, and left so
  VERNIER_COMPARED(RouterCall)
};
LaunchCode route_few(const RouterCall& call, Stream stream);
/// Shared memory that a row's choice takes there, and the most that a block may have, for eight of them or a row.
constexpr int64_t router_row_bytes(int32_t experts, int32_t chosen, int32_t groups) {
  return (route_shared_bytes(experts, chosen, groups) + int64_t{experts} * 4 + 3) / 4 * 4;
}
inline constexpr int64_t kMostRouterBytes = 47 * 1024;

}  // namespace vernier::cuda
