#pragma once

#include <span>
#include <vector>

#include "backends/cuda/launch_queue.h"
#include "ops/ops.h"

namespace vernier {

/// As which kind a step is launched: what decides where its integers lie and how many blocks its kernels have. None for
/// steps of many rows, which are long beside their launches.
std::optional<StepKind> kind_of(const StepView& step);

/// A step's integers in device memory: rows, sequences and block tables, copied at once when it begins, to the places
/// of every step of its kind. One thread.
class CudaStep {
 public:
  CudaStep(CudaDevice& device, LaunchQueue& queue) : device_(device), queue_(queue) {}
  ~CudaStep();
  CudaStep(const CudaStep&) = delete;

  /// `step` stays valid until the next.
  void begin(const StepView& step);
  const StepView& view() const { return step_; }
  const cuda::RowsView& rows() const { return rows_; }
  const cuda::TableView& table(int cache_class) const { return tables_[static_cast<size_t>(cache_class)]; }
  const int32_t* tokens() const { return tokens_; }
  const int32_t* sampled_rows() const { return sampled_; }
  /// Whether every row is sampled: they are then in order.
  bool samples_all() const { return step_.sampled_rows.size() == step_.tokens.size(); }
  /// The most ranges of keys that a row meets, rounded up so that neighbouring steps have the same.
  int32_t ranges(std::optional<int> window) const;
  /// Other integers, valid until the next call.
  const int32_t* upload(std::span<const int32_t> numbers);

 private:
  /// The integers of a step on their way.
  struct Upload {
    PinnedBuffer buffer;
    cuda::Mark sent = nullptr;
  };
  std::byte* take_place(Upload& upload, int64_t bytes);

  CudaDevice& device_;
  LaunchQueue& queue_;
  StepView step_;
  cuda::RowsView rows_;
  std::vector<cuda::TableView> tables_;
  const int32_t* tokens_ = nullptr;
  const int32_t* sampled_ = nullptr;
  std::vector<int32_t> packed_;
  Upload uploads_[2];  // by turns: the device may still read one
  size_t turn_ = 0;
  DeviceScratch packed_on_device_, extra_;
};

/// Cosines and sines of a step's positions on the device, made once a step for each rope that its layers use. One
/// thread.
class CudaRope {
 public:
  CudaRope(CudaDevice& device, LaunchQueue& queue) : device_(device), queue_(queue) {}

  void begin();
  cuda::RopeTable table(const RopeSpec& spec, const cuda::RowsView& rows);

 private:
  struct Entry {
    std::vector<float> frequencies;
    float magnitude = 1;
    std::vector<RopeSpec> specs;  // that mean these
    DeviceBuffer frequencies_on_device;
    DeviceScratch cosines, sines;
    cuda::RopeTable table;
    bool current = false;
  };

  Entry* find(const RopeSpec& spec);

  CudaDevice& device_;
  LaunchQueue& queue_;
  std::vector<std::unique_ptr<Entry>> entries_;
};

}  // namespace vernier
