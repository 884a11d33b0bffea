#include <cuda_runtime.h>

#include <cmath>

#include "backends/cuda/kernels/block.cuh"
#include "backends/cuda/kernels/draw.h"
#include "ops/sample_math.h"

namespace vernier::cuda {
namespace {

constexpr int kLargestThreads = 512;
constexpr int64_t kLargestCols = 4096;  // of a block
constexpr int kRowBlockThreads = 1024;  // of a block that edits or cuts a row
constexpr int kBins = 1024;
constexpr float kBinsPerScore = 1024 / 23.0f;  // the last bin holds what weighs nothing
constexpr int kMostOfBin = 1024;               // tokens that are put in order
constexpr float kBanned = -INFINITY;

/// A logit and where it stands, so that a larger number is a larger logit, or an equal one further ahead; above all
/// others stands a NaN. Never 0.
__device__ __forceinline__ unsigned long long ranked(float logit, int64_t index) {
  const uint32_t bits = __float_as_uint(logit == 0.0f ? 0.0f : logit);  // -0 ties with 0
  const uint32_t order = logit != logit ? 0xFFFFFFFFu : bits >> 31 ? ~bits : bits | 0x80000000u;
  return static_cast<unsigned long long>(order) << 32 | (0xFFFFFFFFu - static_cast<uint32_t>(index));
}
__device__ __forceinline__ float logit_of(unsigned long long rank) {
  const auto order = static_cast<uint32_t>(rank >> 32);
  return __uint_as_float(order >> 31 ? order & 0x7FFFFFFFu : ~order);
}
__device__ __forceinline__ int32_t token_of(unsigned long long rank) {
  return static_cast<int32_t>(0xFFFFFFFFu - static_cast<uint32_t>(rank));
}
/// The token of the highest rank; kNoToken where that is a NaN or -infinity.
__device__ __forceinline__ int32_t told_token(unsigned long long rank) {
  const auto order = static_cast<uint32_t>(rank >> 32);
  return order == 0xFFFFFFFFu || order == ~0xFF800000u ? kNoToken : token_of(rank);
}

__device__ __forceinline__ void tell(const SaturationCall& call) {
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < call.count; i += static_cast<int32_t>(blockDim.x)) {
    call.seen[i] = call.counters[i];
  }
}

__global__ void tell_saturation_kernel(SaturationCall call) {
  start_next();
  await_previous();
  tell(call);
}

__device__ __forceinline__ const float* logits_of(const DrawCall& call, int64_t row, const DrawRow& draw) {
  return draw.edited < 0 ? call.logits.data + row * call.logits.stride : call.edited + draw.edited * call.cols;
}

/// What a token of a row without cuts is drawn by.
__device__ __forceinline__ float drawn_by(const DrawRow& draw, float logit, int64_t token) {
  if (draw.temperature == 0) return logit;
  return logit / draw.temperature + sample_math::noise_of(draw.seed, draw.position, static_cast<uint32_t>(token));
}

__global__ void __launch_bounds__(kLargestThreads) largest_kernel(const __grid_constant__ DrawCall call) {
  __shared__ unsigned long long scratch[kLanes];
  start_next();
  await_previous();
  const int64_t row = blockIdx.x, first = int64_t{blockIdx.y} * kLargestCols;
  if (row == 0 && first == 0) tell(call.saturation);
  DrawRow draw;
  draw.known = static_cast<int32_t>(call.cols);
  if (call.draws != nullptr) draw = call.draws[row];
  if (draw.cut != DrawCut::kNone) return;
  const float* in = logits_of(call, row, draw);
  const int64_t end = first + kLargestCols < draw.known ? first + kLargestCols : draw.known;
  unsigned long long best = 0;
  for (int64_t i = first + threadIdx.x; i < end; i += kLargestThreads) {
    best = Most{}(ranked(drawn_by(draw, in[i], i), i), best);
  }
  best = block_all(best, Most{}, scratch);
  if (threadIdx.x != 0) return;
  atomicMax(call.best + row, best);
  __threadfence();
  if (atomicInc(call.arrived + row, gridDim.y - 1) != gridDim.y - 1) return;
  call.tokens[row] = told_token(atomicExch(call.best + row, 0ull));
}

__device__ __forceinline__ bool bit(const uint32_t* words, int64_t i) {
  return words[i / 32] >> (i % 32) & 1u;
}

__device__ float edited(float logit, const DrawEdit& edit, bool penalty_first) {
  const auto repeat = [&] { logit = logit > 0 ? logit / edit.repetition : logit * edit.repetition; };
  if (penalty_first) {
    logit -= edit.penalty;
    if (edit.repetition != 1) repeat();
    return logit + edit.bias;
  }
  logit += edit.bias;
  if (edit.repetition != 1 && logit != kBanned) repeat();
  return logit - edit.penalty;
}

/// Copies of the rows that masks or edits change. A NaN among the row's own logits comes first, whatever bans it.
__global__ void __launch_bounds__(kRowBlockThreads) edit_kernel(const __grid_constant__ DrawCall call) {
  __shared__ int scratch[kLanes];
  start_next();
  await_previous();
  const int64_t row = blockIdx.x;
  const DrawRow draw = call.draws[row];
  if (draw.edited < 0) return;
  const float* in = call.logits.data + row * call.logits.stride;
  float* to = call.edited + draw.edited * call.cols;
  const uint32_t* mask = draw.mask < 0 ? nullptr : call.masks + draw.mask * call.mask_words;
  const uint32_t* allowed = draw.allowed < 0 ? nullptr : call.masks + draw.allowed * call.mask_words;
  int nan = 0;
  for (int64_t i = threadIdx.x; i < draw.known; i += kRowBlockThreads) {
    const float logit = in[i];
    nan |= logit != logit;
    const bool banned = (mask != nullptr && !bit(mask, i)) || (allowed != nullptr && !bit(allowed, i));
    to[i] = banned ? kBanned : logit;
  }
  nan = block_all(nan, Most{}, scratch);
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < draw.edits; i += kRowBlockThreads) {
    const DrawEdit edit = call.edits[draw.first_edit + i];
    if (edit.token >= draw.known || (mask != nullptr && !bit(mask, edit.token))) continue;
    to[edit.token] = edited(to[edit.token], edit, draw.penalty_first);
  }
  __syncthreads();
  if (nan != 0 && threadIdx.x == 0) to[0] = __uint_as_float(0x7FC00000u);
}

/// What the threads of a block that cuts a row share.
struct CutMemory {
  unsigned long long mass[kBins];
  uint32_t count[kBins];
  unsigned long long ranks[kMostOfBin], in_order[kMostOfBin];
  unsigned long long scratch[kLanes];
  unsigned long long before;  // of the chosen bin: mass or number of what stands above
  double target;
  unsigned long long bound;
  uint32_t gathered;
  int bin;
};

/// A row whose tokens are cut: those of a rank of at least `bound` are left, less those that min_p takes.
class CutRow {
 public:
  __device__ CutRow(const DrawRow& draw, const float* logits, CutMemory& memory)
      : draw_(draw), logits_(logits), memory_(memory) {}

  /// False: there is nothing to draw from, or a NaN, or no finite best logit.
  __device__ bool find_best() {
    unsigned long long best = 0;
    for (int i = first(); i < draw_.known; i += kRowBlockThreads) best = Most{}(ranked(logits_[i], i), best);
    best = block_all(best, Most{}, memory_.scratch);
    const float logit = logit_of(best);
    if (!(fabsf(logit) < INFINITY)) return false;
    best_token_ = token_of(best);
    best_ = score(logit);
    if (draw_.top_p < 1) floor_ = logit - sample_math::kUnseenBelow * (draw_.divide_last ? 1.0f : draw_.temperature);
    return true;
  }

  __device__ void keep_min_p() { least_weight_ = draw_.min_p; }

  /// Leaves the best `top_k`. False: too many tokens stand close together.
  __device__ bool keep_top_k() { return draw_.top_k <= 0 || cut<false>(bound_); }
  /// Leaves the best whose mass reaches top_p of all that are left.
  __device__ bool keep_top_p() { return draw_.top_p >= 1 || cut<true>(bound_); }
  /// Both, of the tokens as they were before either.
  __device__ bool keep_joint() {
    unsigned long long by_count = bound_, by_mass = bound_;
    if (draw_.top_k > 0 && !cut<false>(by_count)) return false;
    if (draw_.top_p < 1 && !cut<true>(by_mass)) return false;
    bound_ = Most{}(by_count, by_mass);
    return true;
  }

  __device__ unsigned long long draw() {
    unsigned long long best = 0;
    for (int i = first(); i < draw_.known; i += kRowBlockThreads) {
      const float logit = logits_[i];
      if (!kept(logit, i)) continue;
      const float noise = sample_math::noise_of(draw_.seed, draw_.position, static_cast<uint32_t>(i));
      best = Most{}(ranked(logit / draw_.temperature + noise, i), best);
    }
    return block_all(best, Most{}, memory_.scratch);
  }

 private:
  static __device__ int first() { return static_cast<int>(threadIdx.x); }
  __device__ float score(float logit) const { return draw_.divide_last ? logit : logit / draw_.temperature; }
  __device__ bool kept(float logit, int token) const {
    if (logit < floor_ || logit == kBanned) return false;
    if (bound_ == 0 && least_weight_ <= 0) return true;
    const float at = score(logit);
    if (ranked(at, token) < bound_) return false;
    return least_weight_ <= 0 || token == best_token_ || !(sample_math::exp_of(at - best_) < least_weight_);
  }
  __device__ int bin_of(float at) const {
    const int bin = static_cast<int>((best_ - at) * kBinsPerScore);
    return bin < kBins - 1 ? bin : kBins - 1;
  }

  /// Chooses the bin in which the count or the mass is reached; false where it never is.
  template <bool kByMass>
  __device__ bool choose_bin() {
    if (threadIdx.x == 0) {
      unsigned long long all = 0, sum = 0;
      for (int bin = 0; bin < kBins; ++bin) all += kByMass ? memory_.mass[bin] : memory_.count[bin];
      memory_.target =
          kByMass ? static_cast<double>(draw_.top_p) * static_cast<double>(all) : static_cast<double>(draw_.top_k);
      memory_.bin = -1;
      for (int bin = 0; bin < kBins; ++bin) {
        const unsigned long long next = sum + (kByMass ? memory_.mass[bin] : memory_.count[bin]);
        if (memory_.count[bin] > 0 && static_cast<double>(next) >= memory_.target) {
          memory_.bin = bin;
          memory_.before = sum;
          break;
        }
        sum = next;
      }
    }
    __syncthreads();
    return memory_.bin >= 0;
  }

  /// Raises `bound` to the rank at which the count or the mass is reached.
  template <bool kByMass>
  __device__ bool cut(unsigned long long& bound) {
    __syncthreads();
    for (int bin = first(); bin < kBins; bin += kRowBlockThreads) memory_.mass[bin] = memory_.count[bin] = 0;
    if (threadIdx.x == 0) memory_.gathered = 0;
    __syncthreads();
    for (int i = first(); i < draw_.known; i += kRowBlockThreads) {
      const float logit = logits_[i];
      if (!kept(logit, i)) continue;
      const float at = score(logit);
      const int bin = bin_of(at);
      atomicAdd(memory_.count + bin, 1u);
      if (kByMass) {
        atomicAdd(memory_.mass + bin, static_cast<unsigned long long>(sample_math::weight_of(at - best_)));
      }
    }
    __syncthreads();
    if (!choose_bin<kByMass>()) return true;
    const int bin = memory_.bin;
    const auto count = static_cast<int>(memory_.count[bin]);
    if (count > kMostOfBin) return false;
    for (int i = first(); i < draw_.known; i += kRowBlockThreads) {
      const float logit = logits_[i];
      if (!kept(logit, i) || bin_of(score(logit)) != bin) continue;
      memory_.ranks[atomicAdd(&memory_.gathered, 1u)] = ranked(score(logit), i);
    }
    __syncthreads();
    for (int i = first(); i < count; i += kRowBlockThreads) {
      const unsigned long long rank = memory_.ranks[i];
      int above = 0;
      for (int j = 0; j < count; ++j) above += memory_.ranks[j] > rank;
      memory_.in_order[above] = rank;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      unsigned long long sum = memory_.before;
      for (int i = 0; i < count; ++i) {
        const unsigned long long rank = memory_.in_order[i];
        memory_.bound = rank;
        sum += kByMass ? sample_math::weight_of(logit_of(rank) - best_) : 1;
        if (static_cast<double>(sum) >= memory_.target) break;
      }
    }
    __syncthreads();
    bound = Most{}(bound, memory_.bound);
    return true;
  }

  const DrawRow& draw_;
  const float* logits_;
  CutMemory& memory_;
  float best_ = 0;
  int best_token_ = 0;
  float floor_ = kBanned;
  float least_weight_ = 0;
  unsigned long long bound_ = 0;
};

__device__ bool cut_row(CutRow& row, DrawCut cut, float min_p) {
  if (!row.find_best()) return false;
  switch (cut) {
    case DrawCut::kMinThenBest:
      row.keep_min_p();
      return row.keep_top_k() && row.keep_top_p();
    case DrawCut::kTogether:
      if (min_p <= 0) return row.keep_joint();
      [[fallthrough]];
    case DrawCut::kBestThenMin:
      if (!row.keep_top_k() || !row.keep_top_p()) return false;
      row.keep_min_p();
      return true;
    default:
      if (!row.keep_top_p()) return false;
      row.keep_min_p();
      return row.keep_top_k();
  }
}

__global__ void __launch_bounds__(kRowBlockThreads) cut_kernel(const __grid_constant__ DrawCall call) {
  __shared__ CutMemory memory;
  start_next();
  await_previous();
  const int64_t row = blockIdx.x;
  const DrawRow draw = call.draws[row];
  if (draw.cut == DrawCut::kNone) return;
  CutRow tokens(draw, logits_of(call, row, draw), memory);
  const bool left = cut_row(tokens, draw.cut, draw.min_p);
  const int32_t token = left ? told_token(tokens.draw()) : kNoToken;
  if (threadIdx.x == 0) call.tokens[row] = token;
}

}  // namespace

LaunchCode tell_saturation(const SaturationCall& call, Stream stream) {
  if (call.count == 0) return kLaunched;
  return launch_early(tell_saturation_kernel, dim3(1), kRowThreads, 0, stream, call);
}

LaunchCode draw(const DrawCall& call, Stream stream) {
  if (call.rows == 0) return kLaunched;
  const unsigned rows = row_blocks(call.rows);
  LaunchCode code = kLaunched;
  if (call.edited != nullptr) code = launch_early(edit_kernel, dim3(rows), kRowBlockThreads, 0, stream, call);
  if (code == kLaunched) {
    const dim3 grid(rows, static_cast<unsigned>((call.cols + kLargestCols - 1) / kLargestCols));
    code = launch_early(largest_kernel, grid, kLargestThreads, 0, stream, call);
  }
  if (code == kLaunched && call.any_cut) {
    code = launch_early(cut_kernel, dim3(rows), kRowBlockThreads, 0, stream, call);
  }
  return code;
}

}  // namespace vernier::cuda
