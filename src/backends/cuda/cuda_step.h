#pragma once

#include <span>
#include <vector>

#include "backends/cuda/cuda_device.h"
#include "ops/ops.h"

namespace vernier {

/// A step's integers in device memory: rows, sequences and block tables, copied at once when it begins. One thread.
class CudaStep {
 public:
  CudaStep(CudaDevice& device, LaunchLog& log) : device_(device), log_(log) {}

  /// `step` stays valid until the next.
  void begin(const StepView& step);
  const StepView& view() const { return step_; }
  const cuda::RowsView& rows() const { return rows_; }
  const cuda::TableView& table(int cache_class) const { return tables_[static_cast<size_t>(cache_class)]; }
  const int32_t* tokens() const { return tokens_; }
  const int32_t* sampled_rows() const { return sampled_; }
  /// Other integers, valid until the next call.
  const int32_t* upload(std::span<const int32_t> numbers);

 private:
  CudaDevice& device_;
  LaunchLog& log_;
  StepView step_;
  cuda::RowsView rows_;
  std::vector<cuda::TableView> tables_;
  const int32_t* tokens_ = nullptr;
  const int32_t* sampled_ = nullptr;
  std::vector<int32_t> packed_;
  DeviceScratch packed_on_device_, extra_;
};

/// Cosines and sines of a step's positions on the device, made once a step for each rope that its layers use. One
/// thread.
class CudaRope {
 public:
  CudaRope(CudaDevice& device, LaunchLog& log) : device_(device), log_(log) {}

  void begin();
  cuda::RopeTable table(const RopeSpec& spec, const cuda::RowsView& rows);

 private:
  struct Entry {
    std::vector<float> frequencies;
    float magnitude = 1;
    DeviceBuffer frequencies_on_device;
    DeviceScratch cosines, sines;
    cuda::RopeTable table;
    bool current = false;
  };

  CudaDevice& device_;
  LaunchLog& log_;
  std::vector<std::unique_ptr<Entry>> entries_;
};

}  // namespace vernier
