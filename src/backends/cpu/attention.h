#pragma once

#include <atomic>
#include <memory>
#include <string_view>
#include <vector>

#include "backends/cpu/aligned_buffer.h"
#include "backends/cpu/cpu_kv.h"
#include "backends/cpu/kernels/attend.h"
#include "backends/cpu/rope_rows.h"
#include "base/thread_pool.h"
#include "ops/ops.h"
#include "tune/choice.h"

namespace vernier {

const AttendKernels& attend_kernels(Isa isa);

/// Cuts the attention of a step into tasks and runs them on a pool: queries are turned and keys and values written
/// first; then sequences of few rows are read range by range and merged, others tile by tile. Memory grows to the
/// largest step seen. One thread.
class Attention {
 public:
  Attention(Isa isa, ThreadPool& pool);

  /// `step` stays valid until the next.
  void begin(const StepView& step);
  /// From qkv [rows, q | k | v] to out [rows, heads * head_dim].
  void run(const AttnLayer& layer, CpuKvStore& kv, const float* qkv, float* out);

 private:
  /// One row's heads of one KV head, whose ranges are tasks of their own; the last to finish merges.
  struct Group {
    int32_t row = 0;
    int32_t kv_head = 0;
    int32_t first_task = 0;
    int32_t ranges = 0;
  };
  struct Range {
    int32_t group = 0;  // index
    int32_t sequence = 0;
    int32_t first_key = 0;
    int32_t end_key = 0;
  };
  struct Tile {
    int32_t sequence = 0;
    int32_t row = 0;
    int32_t rows = 0;
    int32_t position = 0;
    int32_t first_head = 0;
    int32_t end_head = 0;
    int32_t kv_head = 0;
  };
  /// What every task of one call shares.
  struct Call {
    const AttnLayer& layer;
    const CacheTable& table;
    const int64_t* slots;  // [rows]
    KvView<KvRole::kKey> keys;
    KvView<KvRole::kValue> values;
    int group;
    int padded_dim;
    const float* sinks;
    float* out;
    FreshView fresh = {};  // of all sequences; position and row are each one's own
  };

  Call cached_call(const AttnLayer& layer, CpuKvStore& kv, float* out);
  Call whole_call(const AttnLayer& layer, float* out);
  /// Room for the step's own keys and values, where the layer reads these beside the cache.
  FreshView make_fresh(const AttnSpec& spec, const CpuKvStore& kv, int layer);
  FreshView fresh_of(const Call& call, int32_t sequence) const;
  void run_tasks(const Call& call);
  const int64_t* find_slots(const CacheTable& table, int cache_class);
  void prepare(const Call& call, CpuKvStore& kv, const float* qkv);
  void cut(const AttnSpec& spec);
  void cut_ranges(const AttnSpec& spec, int32_t sequence, const SequenceRows& rows);
  void cut_tiles(const AttnSpec& spec, int32_t sequence, const SequenceRows& rows);
  void run_range(const Call& call, int32_t task, int thread);
  void run_tile(const Call& call, const Tile& tile, int thread);
  void merge(const Call& call, const Group& group);
  KvPages pages(const CacheTable& table, int32_t sequence) const;

  const AttendKernels& kernels_;
  ThreadPool& pool_;
  const StepView* step_ = nullptr;
  RopeRows rope_;

  struct ClassSlots {
    bool current = false;
    std::vector<int64_t> slots;  // [rows]
  };
  std::vector<ClassSlots> slots_;  // by cache class

  /// An encoder's keys and values, which live as long as its call: one block that holds all rows of the step.
  struct WholeStep {
    CacheTable table;
    std::vector<int64_t> slots;           // [rows]
    std::vector<int32_t> block;           // [1]
    std::vector<int32_t> begin;           // [sequences]
    std::vector<float> scales;            // [kv_heads] of ones
    std::vector<int32_t> first_position;  // [sequences] such that position 0 lies at the sequence's first row
    FloatBuffer keys, values;
  };
  WholeStep whole_;
  FloatBuffer fresh_keys_, fresh_values_;  // [kv_head, row, head_dim] each

  std::vector<Tile> tiles_;
  std::vector<Range> ranges_;
  std::vector<Group> groups_;
  std::unique_ptr<std::atomic<int32_t>[]> unfinished_;  // of each group
  size_t unfinished_capacity_ = 0;
  std::vector<Partials> partials_;  // of each range
  FloatBuffer partial_numbers_;
  FloatBuffer queries_;
  std::vector<FloatBuffer> scratch_;  // of each thread
};

/// Whether a kernel of attention is called so, without its instruction set: "attend_tiles".
bool is_attend_kernel(std::string_view name);

/// Which kernel serves rows of one sequence that come `batch_rows` at a time, and why not another.
Choice explain_attention(const AttnSpec& spec, const CacheSpec& cache, int64_t batch_rows, Isa isa);

}  // namespace vernier
