#include "backends/cpu/attention.h"

#include <algorithm>
#include <numeric>

#include "backends/cpu/cpu_vector.h"
#include "ops/pack_info.h"
#include "tensor/checked.h"

namespace vernier {
namespace {

/// A sequence with at least this many rows in a step is run tile by tile: its rows share each key that is loaded.
constexpr int32_t kLeastTiledRows = 4;
constexpr int kPrepareRows = 8;  // of one chunk
/// Fewer queries than this share the cost of reading a tile's keys too thinly to give other threads work.
constexpr int32_t kLeastTileQueries = 16;
/// Multiplications of one row, below which handing work to another thread costs more than it gains (about 1 us).
constexpr int64_t kAloneProducts = 12'000;

int32_t first_visible(const AttnSpec& spec, int32_t position) {
  return spec.window ? std::max(0, position - *spec.window + 1) : 0;
}

bool runs_in_tiles(int64_t rows) {
  return rows >= kLeastTiledRows;
}

}  // namespace

const AttendKernels& attend_kernels(Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::kAvx512) return avx512::attend_kernels;
  if (isa == Isa::kAvx2) return avx2::attend_kernels;
#endif
  CHECK(isa == Isa::kBaseline, "no attention kernels are built for {}", name(isa));
  return baseline::attend_kernels;
}

Attention::Attention(Isa isa, ThreadPool& pool)
    : kernels_(attend_kernels(isa)), pool_(pool), scratch_(static_cast<size_t>(pool.threads())) {}

void Attention::begin(const StepView& step) {
  step_ = &step;
  rope_.begin(step.positions);
  slots_.resize(std::max(slots_.size(), step.tables.size()));
  for (ClassSlots& slots : slots_) slots.current = false;
}

void Attention::run(const AttnLayer& layer, CpuKvStore& kv, const float* qkv, float* out) {
  const AttnSpec& spec = layer.spec;
  CHECK(spec.heads % spec.kv_heads == 0, "{} heads over {} KV heads", spec.heads, spec.kv_heads);
  Call call = spec.causal ? cached_call(layer, kv, out) : whole_call(layer, out);
  CHECK(!spec.sinks || call.sinks != nullptr, "layer {} has sinks and no numbers for them", layer.layer);
  prepare(call, kv, qkv);
  if (spec.causal) call.keys.may_hold_nan = call.values.may_hold_nan = kv.nan_written(layer.layer);
  cut(spec);
  run_tasks(call);
}

Attention::Call Attention::cached_call(const AttnLayer& layer, CpuKvStore& kv, float* out) {
  const AttnSpec& spec = layer.spec;
  const CacheSpec& cache = kv.spec(layer.layer);
  CHECK(cache.kv_heads == spec.kv_heads && cache.head_dim == spec.head_dim && cache.window == spec.window,
        "layer {}: the cache was made for other heads or another window", layer.layer);
  const CacheTable& table = step_->tables[static_cast<size_t>(layer.cache_class)];
  CHECK(table.block_tokens == kv.block_tokens(), "blocks of {} tokens, the cache has {}", table.block_tokens,
        kv.block_tokens());
  return {layer,
          table,
          find_slots(table, layer.cache_class),
          kv.keys(layer.layer),
          kv.values(layer.layer),
          spec.heads / spec.kv_heads,
          (spec.head_dim + kernels_.lanes - 1) / kernels_.lanes * kernels_.lanes,
          spec.sinks ? CpuVector::numbers(layer.sinks.get(), spec.heads) : nullptr,
          out,
          make_fresh(spec, kv, layer.layer)};
}

FreshView Attention::make_fresh(const AttnSpec& spec, const CpuKvStore& kv, int layer) {
  FreshView fresh;
  if (kv.spec(layer).fresh == FreshRows::kStored) return fresh;
  const int64_t numbers = step_->rows() * spec.kv_cols();
  const KvExtents extents{static_cast<int32_t>(step_->rows()), spec.kv_heads, spec.head_dim};
  auto bytes = [numbers](FloatBuffer& buffer) { return reinterpret_cast<std::byte*>(buffer.reserve(numbers)); };
  fresh.keys = {bytes(fresh_keys_), CodecId::kF32, kv.keys(layer).scales, extents};
  fresh.values = {bytes(fresh_values_), CodecId::kF32, kv.values(layer).scales, extents};
  return fresh;
}

FreshView Attention::fresh_of(const Call& call, int32_t sequence) const {
  FreshView fresh = call.fresh;
  if (fresh.keys.codes == nullptr) return fresh;
  const SequenceRows& rows = step_->sequences[static_cast<size_t>(sequence)];
  fresh.position = rows.first_position;
  fresh.row = rows.first_row;
  return fresh;
}

Attention::Call Attention::whole_call(const AttnLayer& layer, float* out) {
  const AttnSpec& spec = layer.spec;
  CHECK(!spec.window && !spec.sinks, "attention that is not causal has neither window nor sinks");
  const auto rows = static_cast<int32_t>(step_->rows());
  whole_.slots.resize(static_cast<size_t>(rows));
  std::iota(whole_.slots.begin(), whole_.slots.end(), 0);
  whole_.block.assign(1, 0);
  whole_.scales.assign(static_cast<size_t>(spec.kv_heads), 1.0f);
  whole_.begin.assign(step_->sequences.size(), 0);
  whole_.first_position.clear();
  for (const SequenceRows& sequence : step_->sequences) {
    CHECK(sequence.first_position == 0, "a sequence of an encoder begins at position {}", sequence.first_position);
    whole_.first_position.push_back(-sequence.first_row);
  }
  whole_.table = {rows, whole_.block, whole_.begin, whole_.first_position};
  const int64_t numbers = rows * spec.kv_cols();
  const KvExtents extents{rows, spec.kv_heads, spec.head_dim};
  auto bytes = [numbers](FloatBuffer& buffer) { return reinterpret_cast<std::byte*>(buffer.reserve(numbers)); };
  return {layer,
          whole_.table,
          whole_.slots.data(),
          {bytes(whole_.keys), CodecId::kF32, whole_.scales.data(), extents},
          {bytes(whole_.values), CodecId::kF32, whole_.scales.data(), extents},
          spec.heads / spec.kv_heads,
          (spec.head_dim + kernels_.lanes - 1) / kernels_.lanes * kernels_.lanes,
          nullptr,
          out};
}

void Attention::run_tasks(const Call& call) {
  int64_t each = int64_t{call.group} * (call.padded_dim + 2);
  int64_t stride = (each + 15) / 16 * 16;
  float* numbers = partial_numbers_.reserve(stride * static_cast<int64_t>(ranges_.size()));
  partials_.clear();
  for (size_t i = 0; i < ranges_.size(); ++i) {
    float* outputs = numbers + static_cast<int64_t>(i) * stride;
    float* largest = outputs + int64_t{call.group} * call.padded_dim;
    partials_.push_back({outputs, largest, largest + call.group});
  }
  int64_t scratch = tiles_.empty() ? 0 : kernels_.prefill_scratch_floats(call.padded_dim);
  if (!ranges_.empty()) scratch = std::max(scratch, kernels_.decode_scratch_floats(call.group, call.padded_dim));
  for (FloatBuffer& buffer : scratch_) buffer.reserve(scratch);

  int tiles = static_cast<int>(tiles_.size());
  auto run_task = [&](int task, int thread) {
    if (task < tiles) {
      run_tile(call, tiles_[static_cast<size_t>(task)], thread);
    } else {
      run_range(call, task - tiles, thread);
    }
  };
  int tasks = tiles + static_cast<int>(ranges_.size());
  int64_t keys = 0;
  for (const Range& range : ranges_) keys += range.end_key - range.first_key;
  if (tiles == 0 && keys * call.group * call.padded_dim < kAloneProducts) {
    for (int task = 0; task < tasks; ++task) run_task(task, 0);
  } else {
    pool_.parallel_for(tasks, run_task);
  }
}

const int64_t* Attention::find_slots(const CacheTable& table, int cache_class) {
  ClassSlots& slots = slots_[static_cast<size_t>(cache_class)];
  if (slots.current) return slots.slots.data();
  slots.current = true;
  slots.slots.resize(static_cast<size_t>(step_->rows()));
  for (size_t sequence = 0; sequence < step_->sequences.size(); ++sequence) {
    const SequenceRows& rows = step_->sequences[sequence];
    for (int32_t row = 0; row < rows.rows; ++row) {
      slots.slots[static_cast<size_t>(rows.first_row + row)] = table.slot(sequence, rows.first_position + row);
    }
  }
  return slots.slots.data();
}

void Attention::prepare(const Call& call, CpuKvStore& kv, const float* qkv) {
  const AttnSpec& spec = call.layer.spec;
  PrepareTask task;
  task.qkv = qkv;
  task.heads = spec.heads;
  task.kv_heads = spec.kv_heads;
  task.head_dim = spec.head_dim;
  task.padded_dim = call.padded_dim;
  task.query_scale = spec.scale;
  if (spec.rope.dim > 0) {
    const RopeRows::Table& rope = rope_.table(spec.rope, pool_);
    task.rope_pairs = rope.pairs;
    task.cosines = rope.cosines.data();
    task.sines = rope.sines.data();
  }
  if (spec.qk_norm) {
    task.q_norm = CpuVector::numbers(call.layer.q_norm.get(), spec.head_dim);
    task.k_norm = CpuVector::numbers(call.layer.k_norm.get(), spec.head_dim);
    CHECK(task.q_norm != nullptr && task.k_norm != nullptr, "layer {} norms heads without weights", call.layer.layer);
  }
  task.norm_eps = call.layer.qk_norm_eps;
  task.slots = call.slots;
  task.queries = queries_.reserve(step_->rows() * spec.heads * call.padded_dim);
  task.keys = call.keys;
  task.values = call.values;
  task.fresh = call.fresh;
  task.fresh_is_read = spec.causal && kv.spec(call.layer.layer).fresh == FreshRows::kRoundTrip;
  int rows = static_cast<int>(step_->rows());
  pool_.parallel_for((rows + kPrepareRows - 1) / kPrepareRows, [&](int chunk) {
    int first = chunk * kPrepareRows;
    const KvWritten written = kernels_.prepare(task, first, std::min(rows, first + kPrepareRows));
    if (!spec.causal) return;
    if (written.saturated > 0) kv.add_saturated(call.layer.layer, written.saturated);
    if (written.nan) kv.note_nan(call.layer.layer);
  });
}

void Attention::cut(const AttnSpec& spec) {
  tiles_.clear();
  ranges_.clear();
  groups_.clear();
  for (size_t sequence = 0; sequence < step_->sequences.size(); ++sequence) {
    const SequenceRows& rows = step_->sequences[sequence];
    if (!spec.causal || runs_in_tiles(rows.rows)) {
      cut_tiles(spec, static_cast<int32_t>(sequence), rows);
    } else {
      cut_ranges(spec, static_cast<int32_t>(sequence), rows);
    }
  }
  if (groups_.size() > unfinished_capacity_) {
    unfinished_capacity_ = groups_.size();
    unfinished_ = std::make_unique<std::atomic<int32_t>[]>(unfinished_capacity_);
  }
  for (size_t i = 0; i < groups_.size(); ++i) unfinished_[i].store(groups_[i].ranges, std::memory_order_relaxed);
}

void Attention::cut_ranges(const AttnSpec& spec, int32_t sequence, const SequenceRows& rows) {
  for (int32_t row = 0; row < rows.rows; ++row) {
    int32_t position = rows.first_position + row;
    for (int32_t kv_head = 0; kv_head < spec.kv_heads; ++kv_head) {
      Group group{rows.first_row + row, kv_head, static_cast<int32_t>(ranges_.size()), 0};
      for (int32_t key = first_visible(spec, position); key <= position; ++group.ranges) {
        int32_t end = std::min(position + 1, (key / kDecodeRangeKeys + 1) * kDecodeRangeKeys);
        ranges_.push_back({static_cast<int32_t>(groups_.size()), sequence, key, end});
        key = end;
      }
      groups_.push_back(group);
    }
  }
}

void Attention::cut_tiles(const AttnSpec& spec, int32_t sequence, const SequenceRows& rows) {
  int32_t group = spec.heads / spec.kv_heads;
  int32_t heads = std::min(group, kTileQueries);
  int32_t step = kTileQueries / heads;
  // A small chunk over few KV heads would leave threads idle: lower tiles for as many of them as there are.
  const auto sequences = static_cast<int32_t>(step_->sequences.size());
  const int64_t wanted = ceil_div(pool_.threads(), spec.kv_heads * ceil_div(group, heads) * sequences);
  step = static_cast<int32_t>(
      std::min<int64_t>(step, std::max(ceil_div(kLeastTileQueries, heads), ceil_div(rows.rows, wanted))));
  // Of one KV head after another, as a core's cache may hold the keys and values of one. The last rows see most keys:
  // they go first, so that no thread is left alone with them.
  for (int32_t kv_head = 0; kv_head < spec.kv_heads; ++kv_head) {
    for (int32_t end = rows.rows; end > 0; end -= step) {
      const int32_t first = std::max(0, end - step);
      for (int32_t head = 0; head < group; head += heads) {
        tiles_.push_back({sequence, rows.first_row + first, end - first, rows.first_position + first,
                          kv_head * group + head, kv_head * group + std::min(group, head + heads), kv_head});
      }
    }
  }
}

KvPages Attention::pages(const CacheTable& table, int32_t sequence) const {
  size_t at = static_cast<size_t>(sequence);
  return {table.blocks.data() + table.begin[at], table.first_position[at], table.block_tokens};
}

void Attention::run_range(const Call& call, int32_t index, int thread) {
  const Range& range = ranges_[static_cast<size_t>(index)];
  const Group& group = groups_[static_cast<size_t>(range.group)];
  const AttnSpec& spec = call.layer.spec;
  DecodeTask task;
  task.queries = queries_.data() + (int64_t{group.row} * spec.heads + group.kv_head * call.group) * call.padded_dim;
  task.group = call.group;
  task.head_dim = spec.head_dim;
  task.padded_dim = call.padded_dim;
  task.kv_head = group.kv_head;
  task.soft_cap = spec.soft_cap;
  task.first_key = range.first_key;
  task.end_key = range.end_key;
  task.pages = pages(call.table, range.sequence);
  task.keys = call.keys;
  task.values = call.values;
  task.fresh = fresh_of(call, range.sequence);
  task.out = partials_[static_cast<size_t>(index)];
  task.scratch = scratch_[static_cast<size_t>(thread)].data();
  kernels_.decode(task);
  // Acquire, for the partial results of the others; release, for this one.
  if (unfinished_[range.group].fetch_sub(1, std::memory_order_acq_rel) == 1) merge(call, group);
}

void Attention::merge(const Call& call, const Group& group) {
  const AttnSpec& spec = call.layer.spec;
  int64_t first_head = int64_t{group.kv_head} * call.group;
  MergeTask task;
  task.partials = partials_.data() + group.first_task;
  task.ranges = group.ranges;
  task.group = call.group;
  task.head_dim = spec.head_dim;
  task.padded_dim = call.padded_dim;
  task.sinks = call.sinks != nullptr ? call.sinks + first_head : nullptr;
  task.kv_head = group.kv_head;
  task.values = call.values;
  task.out = call.out + (int64_t{group.row} * spec.heads + first_head) * spec.head_dim;
  kernels_.merge(task);
}

void Attention::run_tile(const Call& call, const Tile& tile, int thread) {
  const AttnSpec& spec = call.layer.spec;
  PrefillTask task;
  task.queries = queries_.data() + int64_t{tile.row} * spec.heads * call.padded_dim;
  task.heads = spec.heads;
  task.first_head = tile.first_head;
  task.end_head = tile.end_head;
  task.rows = tile.rows;
  task.first_position = tile.position;
  task.window = spec.window.value_or(0);
  task.end_key = spec.causal ? 0 : step_->sequences[static_cast<size_t>(tile.sequence)].rows;
  task.head_dim = spec.head_dim;
  task.padded_dim = call.padded_dim;
  task.kv_head = tile.kv_head;
  task.soft_cap = spec.soft_cap;
  task.sinks = call.sinks;
  task.pages = pages(call.table, tile.sequence);
  task.keys = call.keys;
  task.values = call.values;
  task.fresh = fresh_of(call, tile.sequence);
  task.out = call.out + int64_t{tile.row} * spec.heads * spec.head_dim;
  task.scratch = scratch_[static_cast<size_t>(thread)].data();
  kernels_.prefill(task);
}

bool is_attend_kernel(std::string_view name) {
  return name == "attend_tiles" || name == "attend_group";
}

Choice explain_attention(const AttnSpec& spec, const CacheSpec& cache, int64_t batch_rows, Isa isa) {
  Choice choice;
  choice.problem = attend_problem(spec, cache, batch_rows);
  choice.layout = "[block, head, token, dim]";
  isa = std::min(isa, Isa::kAvx512);  // no kernel of attention is built for tiles
  for (Isa level : {Isa::kAvx512, Isa::kAvx2, Isa::kBaseline}) {
    for (bool tiles : {true, false}) {
      Candidate candidate;
      candidate.kernel = fmt::format("attend_{}_{}", tiles ? "tiles" : "group", name(level));
      if (level > isa) {
        candidate.reason = {ReasonCode::kNeedsIsa, fmt::format("needs {}; {} is in use", name(level), name(isa))};
      } else if (tiles != (!spec.causal || runs_in_tiles(batch_rows))) {
        candidate.reason = {ReasonCode::kRows,
                            tiles         ? fmt::format("tiles pay from {} rows of a sequence", kLeastTiledRows)
                            : spec.causal ? "reads the keys once for each row"
                                          : "sees keys up to its row only"};
      } else if (level < isa) {
        candidate.reason = {ReasonCode::kSlower, fmt::format("{} is wider", name(isa))};
      } else {
        candidate.reason = {ReasonCode::kChosen, fmt::format("{} lanes, {} heads share each key",
                                                             attend_kernels(level).lanes, spec.heads / spec.kv_heads)};
      }
      choice.candidates.push_back(std::move(candidate));
    }
  }
  return choice;
}

}  // namespace vernier
