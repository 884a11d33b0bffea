#pragma once

#include <cstdint>
#include <limits>

#include "backends/cpu/cpu_isa.h"
#include "backends/cpu/kv_view.h"

namespace vernier {

/// Keys that one partial result covers in decode. Ranges begin at multiples of it, so that how a row's keys are cut
/// depends on its position alone.
inline constexpr int kDecodeRangeKeys = 256;
/// Query vectors (rows x heads of a group) that a prefill task takes at most.
inline constexpr int kTileQueries = 96;
inline constexpr int kMaxHeadDim = 1024;

/// A step's own keys and values beside the cache, as float32 in the cache's units: number / scale. Row r of the step is
/// slot r. `position` says from where on a sequence's keys are read here, `row` which slot that position is.
struct FreshView {
  KvView<KvRole::kKey> keys;
  KvView<KvRole::kValue> values;
  int position = std::numeric_limits<int>::max();
  int row = 0;
};

/// Rows [first_row, end_row) of the step: qk-norm, rope and scale of queries to `queries`, norm and rope of keys and
/// the values to the cache.
struct PrepareTask {
  const float* qkv = nullptr;  ///< [rows, q | k | v]
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int padded_dim = 0;              ///< of `queries`; the pad is zero
  float query_scale = 1;           ///< the spec's; the key's own joins it
  const float* cosines = nullptr;  ///< [rows, rope_pairs]
  const float* sines = nullptr;    ///< [rows, rope_pairs]
  int rope_pairs = 0;              ///< 0: no rope
  const float* q_norm = nullptr;   ///< [head_dim], or null
  const float* k_norm = nullptr;   ///< [head_dim], or null
  float norm_eps = 0;
  const int64_t* slots = nullptr;  ///< [rows]
  float* queries = nullptr;        ///< [rows, heads, padded_dim]
  KvView<KvRole::kKey> keys;
  KvView<KvRole::kValue> values;
  FreshView fresh;             ///< written too where it has codes
  bool fresh_is_read = false;  ///< back from the cache, not as computed
};

/// What of its softmax a group's partial result keeps, for each query: a / e^max summed.
struct Partials {
  float* outputs = nullptr;  ///< [group, padded_dim], not yet divided by the sum
  float* largest = nullptr;  ///< [group]
  float* sums = nullptr;     ///< [group]
};

/// One row's queries of one KV head over keys [first_key, end_key), all visible.
struct DecodeTask {
  const float* queries = nullptr;  ///< [group, padded_dim]
  int group = 0;
  int head_dim = 0;
  int padded_dim = 0;
  int kv_head = 0;
  float soft_cap = 0;
  int first_key = 0;
  int end_key = 0;
  KvPages pages;
  KvView<KvRole::kKey> keys;
  KvView<KvRole::kValue> values;
  FreshView fresh;
  Partials out;
  float* scratch = nullptr;  ///< decode_scratch_floats
};

/// Consecutive rows of a sequence, heads [first_head, end_head) of one KV head's group, over all they see.
struct PrefillTask {
  const float* queries = nullptr;  ///< of the first row, [rows, heads, padded_dim]
  int heads = 0;                   ///< of a row in `queries`
  int first_head = 0;              ///< rows * (end_head - first_head) <= kTileQueries
  int end_head = 0;
  int rows = 0;
  int first_position = 0;  ///< of the first row
  int window = 0;          ///< 0: none
  int end_key = 0;         ///< above 0: all keys before it are visible to every row, and no other
  int head_dim = 0;
  int padded_dim = 0;
  int kv_head = 0;
  float soft_cap = 0;
  const float* sinks = nullptr;  ///< [heads], or null
  KvPages pages;
  KvView<KvRole::kKey> keys;
  KvView<KvRole::kValue> values;
  FreshView fresh;
  float* out = nullptr;      ///< of the first row, [rows, heads * head_dim]
  float* scratch = nullptr;  ///< prefill_scratch_floats
};

/// One row's heads of one group: partial results of its ranges to the output.
struct MergeTask {
  const Partials* partials = nullptr;  ///< [ranges]
  int ranges = 0;
  int group = 0;
  int head_dim = 0;
  int padded_dim = 0;
  const float* sinks = nullptr;  ///< of the group, or null
  int kv_head = 0;
  KvView<KvRole::kValue> values;  ///< whose scale the outputs get
  float* out = nullptr;           ///< [group, head_dim]
};

/// What a write to the cache met.
struct KvWritten {
  int64_t saturated = 0;  ///< numbers
  bool nan = false;       ///< in a type that has codes of NaN which a kernel may read wrongly
};

/// Attention kernels of one instruction set.
struct AttendKernels {
  Isa isa = Isa::kBaseline;
  int lanes = 0;  ///< padded_dim is the next multiple of this
  KvWritten (*prepare)(const PrepareTask& task, int first_row, int end_row) = nullptr;
  void (*decode)(const DecodeTask& task) = nullptr;
  void (*merge)(const MergeTask& task) = nullptr;
  void (*prefill)(const PrefillTask& task) = nullptr;
  int64_t (*decode_scratch_floats)(int group, int padded_dim) = nullptr;
  int64_t (*prefill_scratch_floats)(int padded_dim) = nullptr;
};

namespace baseline {
extern const AttendKernels attend_kernels;
}
namespace avx2 {
extern const AttendKernels attend_kernels;
}
namespace avx512 {
extern const AttendKernels attend_kernels;
}

}  // namespace vernier
