#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace vernier {

/// Levels of instruction set that kernels are built for, each with all that the one before has.
enum class Isa : uint8_t {
  kBaseline,  ///< what every machine of the architecture has
  kAvx2,      ///< AVX2, FMA, F16C, BMI2
  kAvx512,    ///< AVX-512 F, BW, VL, DQ, VNNI, BF16
  kAmx,       ///< AMX tiles, INT8, BF16
};

std::string_view name(Isa isa);

/// Levels that this processor has and the system saves registers for, lowest first; never empty.
const std::vector<Isa>& machine_isas();

/// The level of that name, or the best for an empty name. Refuses a name that is none and one the machine lacks, and
/// lists what it has.
Result<Isa> choose_isa(std::string_view wanted);

/// The processor's own name: "AMD EPYC".
std::string machine_name();

}  // namespace vernier
