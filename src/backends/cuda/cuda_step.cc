#include "backends/cuda/cuda_step.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <variant>

#include "backends/cuda/kernel_choice.h"

namespace vernier {
namespace {

constexpr int64_t kMostGraphRows = 512;    // beyond, a step's kernels take long beside their launches
constexpr size_t kLeastPlaces = 64;        // of a list whose length changes from step to step
constexpr int64_t kLeastPacked = 1 << 14;  // so that the first steps do not move

size_t places_for(size_t count) {
  return std::bit_ceil(std::max(count, kLeastPlaces));
}

int32_t longest_end(const StepView& step) {
  int32_t end = 1;
  for (const SequenceRows& rows : step.sequences) end = std::max(end, rows.first_position + rows.rows);
  return end;
}

template <class... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};

bool same_scaling(const RopeSpec& a, const RopeSpec& b) {
  return std::visit(Overloaded{
                        [](const RopePlain&, const RopePlain&) { return true; },
                        [](const RopeLinear& x, const RopeLinear& y) { return x.factor == y.factor; },
                        [](const RopeDivisors& x, const RopeDivisors& y) { return x.divisors == y.divisors; },
                        [](const RopeLlama3& x, const RopeLlama3& y) {
                          return x.factor == y.factor && x.low_frequency_factor == y.low_frequency_factor &&
                                 x.high_frequency_factor == y.high_frequency_factor &&
                                 x.original_max_positions == y.original_max_positions;
                        },
                        [](const RopeYarn& x, const RopeYarn& y) {
                          return x.factor == y.factor && x.original_max_positions == y.original_max_positions &&
                                 x.beta_fast == y.beta_fast && x.beta_slow == y.beta_slow && x.truncate == y.truncate &&
                                 x.magnitude == y.magnitude;
                        },
                        [](const auto&, const auto&) { return false; },
                    },
                    a.scaling, b.scaling);
}

bool same_rope(const RopeSpec& a, const RopeSpec& b) {
  return a.base == b.base && a.dim == b.dim && same_scaling(a, b);
}

}  // namespace

std::optional<StepKind> kind_of(const StepView& step) {
  if (step.rows() > kMostGraphRows) return {};
  StepKind kind;
  kind.numbers = {step.rows(), static_cast<int64_t>(step.sequences.size()),
                  static_cast<int64_t>(step.sampled_rows.size()), shared_ranges(most_ranges(longest_end(step), {}))};
  for (const CacheTable& table : step.tables)
    kind.numbers.push_back(static_cast<int64_t>(places_for(table.blocks.size())));
  return kind;
}

CudaStep::~CudaStep() {
  for (Upload& upload : uploads_) {
    if (upload.sent == nullptr) continue;
    (void)cuda::await_mark(upload.sent);
    cuda::destroy_mark(upload.sent);
  }
}

int32_t CudaStep::ranges(std::optional<int> window) const {
  return shared_ranges(most_ranges(longest_end(step_), window));
}

/// Pinned memory that the device has read. Null, and the queue says why, where there is none.
std::byte* CudaStep::take_place(Upload& upload, int64_t bytes) {
  const auto failed = [&](cuda::LaunchCode code) {
    if (code != cuda::kLaunched) queue_.fail(device_error("a step's integers", code));
    return code != cuda::kLaunched;
  };
  if (upload.sent == nullptr) {
    if (failed(cuda::make_mark(&upload.sent))) return nullptr;
  } else if (failed(cuda::await_mark(upload.sent))) {
    return nullptr;
  }
  if (upload.buffer.bytes() < bytes) {
    Result<PinnedBuffer> larger = device_.take_pinned(bytes);
    if (!larger.ok()) {
      queue_.fail(std::move(larger).error());
      return nullptr;
    }
    upload.buffer = std::move(larger).value();
  }
  return upload.buffer.data();
}

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
    append(tables_[i].begin, step.tables[i].begin);
    append(tables_[i].first_position, step.tables[i].first_position);
    append(tables_[i].blocks, step.tables[i].blocks);
    packed_.resize(packed_.size() + places_for(step.tables[i].blocks.size()) - step.tables[i].blocks.size());
  }
  const auto bytes = static_cast<int64_t>(packed_.size() * sizeof(int32_t));
  const auto most = static_cast<int64_t>(std::bit_ceil(packed_.size()));
  auto* at =
      packed_on_device_.reserve<int32_t>(device_, queue_, std::max(most, kLeastPacked), "a step's rows and blocks");
  for (auto [to, offset] : places) *to = at + offset;
  Upload& upload = uploads_[turn_++ % 2];
  std::byte* pinned = queue_.failed() ? nullptr : take_place(upload, bytes);
  if (pinned == nullptr) return;
  std::memcpy(pinned, packed_.data(), static_cast<size_t>(bytes));
  cuda::LaunchCode code = cuda::copy_in_later(reinterpret_cast<std::byte*>(at), pinned, bytes, device_.stream());
  if (code == cuda::kLaunched) code = cuda::set_mark(upload.sent, device_.stream());
  if (code != cuda::kLaunched) queue_.fail(device_error("a step's integers", code));
}

const int32_t* CudaStep::upload(std::span<const int32_t> numbers) {
  queue_.send();  // what waits may read what stood there
  auto* at = extra_.reserve<int32_t>(device_, queue_, static_cast<int64_t>(numbers.size()), "row numbers");
  if (!queue_.failed()) queue_.note(device_.copy_in(reinterpret_cast<std::byte*>(at), std::as_bytes(numbers)));
  return at;
}

void CudaRope::begin() {
  for (auto& entry : entries_) entry->current = false;
}

/// The numbers of this rope, made where they are met first. Null, and the queue says why, where they cannot be.
CudaRope::Entry* CudaRope::find(const RopeSpec& spec) {
  for (auto& entry : entries_) {
    if (std::ranges::any_of(entry->specs, [&](const RopeSpec& known) { return same_rope(known, spec); })) {
      return entry.get();
    }
  }
  std::vector<float> frequencies = spec.frequencies();
  const float magnitude = spec.magnitude();
  auto it = std::ranges::find_if(
      entries_, [&](const auto& entry) { return entry->frequencies == frequencies && entry->magnitude == magnitude; });
  if (it != entries_.end()) {
    (*it)->specs.push_back(spec);
    return it->get();
  }
  auto made = std::make_unique<Entry>();
  Result<DeviceBuffer> copied =
      device_.take_copy(std::as_bytes(std::span<const float>(frequencies)), "rope frequencies");
  if (!copied.ok()) {
    queue_.fail(std::move(copied).error());
    return nullptr;
  }
  made->frequencies_on_device = std::move(copied).value();
  made->frequencies = std::move(frequencies);
  made->magnitude = magnitude;
  made->table.pairs = static_cast<int32_t>(made->frequencies.size());
  made->specs.push_back(spec);
  entries_.push_back(std::move(made));
  return entries_.back().get();
}

cuda::RopeTable CudaRope::table(const RopeSpec& spec, const cuda::RowsView& rows) {
  if (spec.dim == 0) return {};
  Entry* entry = find(spec);
  if (entry == nullptr) return {};
  if (entry->current || queue_.failed()) return entry->table;
  entry->current = true;
  const int32_t pairs = entry->table.pairs;
  auto* cosines = entry->cosines.reserve<float>(device_, queue_, int64_t{rows.rows} * pairs, "rope");
  auto* sines = entry->sines.reserve<float>(device_, queue_, int64_t{rows.rows} * pairs, "rope");
  queue_.launch("rope", cuda::fill_rope, rows.positions, rows.rows, entry->frequencies_on_device.as<const float>(),
                pairs, double{entry->magnitude}, cosines, sines);
  entry->table.cosines = cosines;
  entry->table.sines = sines;
  return entry->table;
}

}  // namespace vernier
