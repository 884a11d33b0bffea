#include "backends/cuda/cuda_step.h"

#include <algorithm>

namespace vernier {

void CudaStep::begin(const StepView& step) {
  step_ = step;
  packed_.clear();
  std::vector<std::pair<const int32_t**, size_t>> places;  // which pointer becomes which offset
  auto append = [&](const int32_t*& to, std::span<const int32_t> numbers) {
    places.push_back({&to, packed_.size()});
    packed_.insert(packed_.end(), numbers.begin(), numbers.end());
  };
  std::vector<int32_t> sequence, first_row, first_position, row_count;
  for (const SequenceRows& rows : step.sequences) {
    sequence.insert(sequence.end(), static_cast<size_t>(rows.rows), static_cast<int32_t>(first_row.size()));
    first_row.push_back(rows.first_row);
    first_position.push_back(rows.first_position);
    row_count.push_back(rows.rows);
  }
  rows_ = {};
  rows_.rows = static_cast<int32_t>(step.rows());
  append(tokens_, step.tokens);
  append(sampled_, step.sampled_rows);
  append(rows_.positions, step.positions);
  append(rows_.sequence, sequence);
  append(rows_.first_row, first_row);
  append(rows_.first_position, first_position);
  append(rows_.row_count, row_count);
  tables_.assign(step.tables.size(), {});
  for (size_t i = 0; i < step.tables.size(); ++i) {
    tables_[i].block_tokens = step.tables[i].block_tokens;
    append(tables_[i].blocks, step.tables[i].blocks);
    append(tables_[i].begin, step.tables[i].begin);
    append(tables_[i].first_position, step.tables[i].first_position);
  }
  const auto count = static_cast<int64_t>(packed_.size());
  auto* at = packed_on_device_.reserve<int32_t>(device_, log_, count, "a step's rows and blocks");
  for (auto [to, offset] : places) *to = at + offset;
  if (log_.failed()) return;
  log_.note(device_.copy_in(reinterpret_cast<std::byte*>(at), std::as_bytes(std::span<const int32_t>(packed_))));
}

const int32_t* CudaStep::upload(std::span<const int32_t> numbers) {
  auto* at = extra_.reserve<int32_t>(device_, log_, static_cast<int64_t>(numbers.size()), "row numbers");
  if (!log_.failed()) log_.note(device_.copy_in(reinterpret_cast<std::byte*>(at), std::as_bytes(numbers)));
  return at;
}

void CudaRope::begin() {
  for (auto& entry : entries_) entry->current = false;
}

cuda::RopeTable CudaRope::table(const RopeSpec& spec, const cuda::RowsView& rows) {
  if (spec.dim == 0) return {};
  std::vector<float> frequencies = spec.frequencies();
  const float magnitude = spec.magnitude();
  auto it = std::ranges::find_if(
      entries_, [&](const auto& entry) { return entry->frequencies == frequencies && entry->magnitude == magnitude; });
  if (it == entries_.end()) {
    auto made = std::make_unique<Entry>();
    Result<DeviceBuffer> copied =
        device_.take_copy(std::as_bytes(std::span<const float>(frequencies)), "rope frequencies");
    if (!copied.ok()) {
      log_.fail(std::move(copied).error());
      return {};
    }
    made->frequencies_on_device = std::move(copied).value();
    made->frequencies = std::move(frequencies);
    made->magnitude = magnitude;
    made->table.pairs = static_cast<int32_t>(made->frequencies.size());
    entries_.push_back(std::move(made));
    it = entries_.end() - 1;
  }
  Entry& entry = **it;
  if (entry.current || log_.failed()) return entry.table;
  entry.current = true;
  const int32_t pairs = entry.table.pairs;
  auto* cosines = entry.cosines.reserve<float>(device_, log_, int64_t{rows.rows} * pairs, "rope");
  auto* sines = entry.sines.reserve<float>(device_, log_, int64_t{rows.rows} * pairs, "rope");
  log_.launch("rope", [&] {
    return cuda::fill_rope(rows.positions, rows.rows, entry.frequencies_on_device.as<const float>(), pairs,
                           double{magnitude}, cosines, sines, device_.stream());
  });
  entry.table.cosines = cosines;
  entry.table.sines = sines;
  return entry.table;
}

}  // namespace vernier
