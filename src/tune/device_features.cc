#include "tune/device_features.h"

#include <algorithm>
#include <array>

namespace vernier {
namespace {

constexpr std::array<std::string_view, kChipFeatures> kNames = {
    "bf16_mma", "fp8_mma", "fp4_mma", "scaled_mma", "bulk_copy", "warpgroup_mma", "tensor_memory"};

}  // namespace

std::string_view name(ChipFeature capability) {
  return kNames.at(static_cast<size_t>(capability));
}

std::optional<ChipFeature> find_chip_feature(std::string_view name) {
  const auto found = std::ranges::find(kNames, name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<ChipFeature>(found - kNames.begin());
}

std::optional<ChipFeature> ChipFeatureSet::first_missing_in(ChipFeatureSet given) const {
  for (int i = 0; i < kChipFeatures; ++i) {
    const auto one = static_cast<ChipFeature>(i);
    if (has(one) && !given.has(one)) return one;
  }
  return std::nullopt;
}

std::string ChipFeatureSet::to_string() const {
  std::string text;
  for (int i = 0; i < kChipFeatures; ++i) {
    const auto one = static_cast<ChipFeature>(i);
    if (has(one)) text += (text.empty() ? "" : ", ") + std::string(vernier::name(one));
  }
  return text.empty() ? "none" : text;
}

std::span<const DeviceFeatures> known_devices() {
  using enum ChipFeature;
  constexpr int64_t kKiB = 1024;
  static const std::array<DeviceFeatures, 7> kDevices = {{
      {"sm80", {kBf16Mma}, 163 * kKiB},
      {"sm89", {kBf16Mma, kFp8Mma}, 99 * kKiB},
      {"sm90", {kBf16Mma, kFp8Mma, kBulkCopy, kWarpgroupMma}, 227 * kKiB},
      {"sm100", {kBf16Mma, kFp8Mma, kFp4Mma, kScaledMma, kBulkCopy, kTensorMemory}, 227 * kKiB},
      {"sm103", {kBf16Mma, kFp8Mma, kFp4Mma, kScaledMma, kBulkCopy, kTensorMemory}, 227 * kKiB},
      {"sm120", {kBf16Mma, kFp8Mma, kFp4Mma, kScaledMma, kBulkCopy}, 99 * kKiB},
      {"sm121", {kBf16Mma, kFp8Mma, kFp4Mma, kScaledMma, kBulkCopy}, 99 * kKiB},
  }};
  return kDevices;
}

const DeviceFeatures* find_device(std::string_view name) {
  const auto devices = known_devices();
  const auto found = std::ranges::find(devices, name, &DeviceFeatures::name);
  return found == devices.end() ? nullptr : &*found;
}

}  // namespace vernier
