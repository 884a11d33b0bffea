#include "backends/cuda/cuda_sampler.h"

#include <algorithm>
#include <cstring>

#include "backends/cuda/draw_choice.h"

namespace vernier {
namespace {

int64_t mask_words(int64_t vocab) {
  return (vocab + 31) / 32;
}

}  // namespace

/// Rows, edits and masks of what the device draws. A row that is left to the host has no token there.
Status CudaSampler::describe(std::span<const SampleSpec> specs, cuda::DrawCall& call) {
  rows_.clear();
  edits_.clear();
  masks_.clear();
  call.mask_words = mask_words(call.cols);
  int32_t changed = 0, masks = 0;
  const auto note = [&](std::span<const uint32_t> mask) {
    if (mask.empty()) return -1;
    masks_.insert(masks_.end(), mask.begin(), mask.end());
    return masks++;
  };
  for (const SampleSpec& spec : specs) {
    if (!device_draws(spec, call.cols)) {
      rows_.push_back({});
      continue;
    }
    cuda::DrawRow row = draw_row(spec, call.cols);
    call.any_cut |= row.cut != cuda::DrawCut::kNone;
    if (changes_logits(spec)) {
      row.edited = changed++;
      row.mask = note(spec.mask);
      row.allowed = note(spec.allowed);
      row.first_edit = static_cast<int32_t>(edits_.size());
      row.edits = static_cast<int32_t>(spec.edits.size());
      for (const LogitEdit& edit : spec.edits) edits_.push_back({edit.token, edit.bias, edit.repetition, edit.penalty});
    }
    rows_.push_back(row);
  }
  if (changed > 0) call.edited = edited_.reserve<float>(device_, queue_, changed * call.cols, "edited logits");
  return upload(call);
}

/// To one place, behind each other.
Status CudaSampler::upload(cuda::DrawCall& call) {
  queue_.send();  // what waits may read what stood there
  TRY_STATUS(queue_.status());
  const auto row_bytes = static_cast<int64_t>(rows_.size() * sizeof(cuda::DrawRow));
  const auto edit_bytes = static_cast<int64_t>(edits_.size() * sizeof(cuda::DrawEdit));
  const auto bytes = row_bytes + edit_bytes + static_cast<int64_t>(masks_.size() * sizeof(uint32_t));
  auto* at = described_.reserve<std::byte>(device_, queue_, bytes, "how tokens are drawn");
  TRY_STATUS(queue_.status());
  // The last step's was read: its tokens were waited for.
  if (describing_.bytes() < bytes) {
    TRY_BIND(describing_, device_.take_pinned(bytes));
  }
  std::memcpy(describing_.data(), rows_.data(), static_cast<size_t>(row_bytes));
  if (!edits_.empty()) std::memcpy(describing_.data() + row_bytes, edits_.data(), static_cast<size_t>(edit_bytes));
  if (!masks_.empty()) {
    std::memcpy(describing_.data() + row_bytes + edit_bytes, masks_.data(), masks_.size() * sizeof(uint32_t));
  }
  if (const cuda::LaunchCode code = cuda::copy_in_later(at, describing_.data(), bytes, device_.stream());
      code != cuda::kLaunched) {
    return device_error("how tokens are drawn", code);
  }
  call.draws = reinterpret_cast<const cuda::DrawRow*>(at);
  call.edits = reinterpret_cast<const cuda::DrawEdit*>(at + row_bytes);
  call.masks = reinterpret_cast<const uint32_t*>(at + row_bytes + edit_bytes);
  return {};
}

Result<SampledToken> CudaSampler::sample_on_host(cuda::ConstRows logits, int64_t cols, int64_t row,
                                                 const SampleSpec& spec) {
  logits_.resize(static_cast<size_t>(cols));
  TRY_STATUS(device_.copy_out(std::as_writable_bytes(std::span(logits_)),
                              reinterpret_cast<const std::byte*>(logits.data + row * logits.stride)));
  return sample_row(logits_, spec);
}

Result<SampledRows> CudaSampler::sample(cuda::ConstRows logits, int64_t cols, std::span<const SampleSpec> specs,
                                        const cuda::SaturationCall& saturation) {
  const auto rows = static_cast<int64_t>(specs.size());
  cuda::DrawCall call;
  call.logits = logits;
  call.rows = rows;
  call.cols = cols;
  const auto plain = [&](const SampleSpec& spec) { return takes_largest(spec, cols); };
  if (!std::ranges::all_of(specs, plain)) TRY_STATUS(describe(specs, call));
  call.best = best_.reserve_zeros<unsigned long long>(device_, queue_, rows, "the tokens of rows");
  call.arrived = arrived_.reserve_zeros<uint32_t>(device_, queue_, rows, "the tokens of rows");
  if (tokens_.bytes() < rows * static_cast<int64_t>(sizeof(int32_t))) {
    queue_.send();
    TRY_BIND(tokens_, device_.take_pinned(rows * static_cast<int64_t>(sizeof(int32_t))));
  }
  call.tokens = tokens_.on_device<int32_t>();
  call.saturation = saturation;
  queue_.launch("tokens", cuda::draw, call);
  TRY_STATUS(queue_.finish());
  SampledRows sampled;
  for (int64_t row = 0; row < rows; ++row) {
    const SampleSpec& spec = specs[static_cast<size_t>(row)];
    const int32_t token = tokens_.as<const int32_t>()[row];
    if (token == cuda::kNoToken || !device_draws(spec, cols)) {
      sampled.push_back(sample_on_host(logits, cols, row, spec));
    } else {
      SampledToken drawn;
      drawn.token = token;
      sampled.push_back(std::move(drawn));
    }
  }
  return sampled;
}

}  // namespace vernier
