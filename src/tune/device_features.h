#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace vernier {

/// One thing that a chip (with the toolkit that the program was built by) can do. Kernels ask for these, never for a
/// name or a generation: chips of one generation differ in them.
enum class ChipFeature : uint8_t {
  kBf16Mma,
  kFp8Mma,
  kFp4Mma,
  kScaledMma,     ///< products that take E8M0 or E4M3 scales of groups with their operands
  kBulkCopy,      ///< tiles copied by descriptor
  kWarpgroupMma,  ///< products of a warp group out of shared memory
  kTensorMemory,  ///< accumulators in a memory of their own
};
inline constexpr int kChipFeatures = 7;

std::string_view name(ChipFeature capability);  ///< "fp8_mma"
std::optional<ChipFeature> find_chip_feature(std::string_view name);

/// A set of them.
class ChipFeatureSet {
 public:
  constexpr ChipFeatureSet() = default;
  constexpr ChipFeatureSet(std::initializer_list<ChipFeature> all) {
    for (ChipFeature one : all) add(one);
  }
  constexpr void add(ChipFeature one) { bits_ = static_cast<uint16_t>(bits_ | 1u << static_cast<unsigned>(one)); }
  constexpr bool has(ChipFeature one) const { return (bits_ >> static_cast<unsigned>(one) & 1u) != 0; }
  /// The first of these that `given` lacks.
  std::optional<ChipFeature> first_missing_in(ChipFeatureSet given) const;
  std::string to_string() const;  ///< "bf16_mma, fp8_mma"

 private:
  uint16_t bits_ = 0;
};

/// A chip as far as choosing a kernel goes.
struct DeviceFeatures {
  std::string name;  ///< for people: no choice depends on it
  ChipFeatureSet capabilities;
  int64_t shared_bytes = 0;  ///< of shared memory that one block of threads may have
};

/// What is known of chips, for planning without one: "sm80", "sm89", "sm90", "sm100", "sm103", "sm120", "sm121".
std::span<const DeviceFeatures> known_devices();
const DeviceFeatures* find_device(std::string_view name);  ///< null: not known

}  // namespace vernier
