#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "tensor/qtensor.h"

namespace vernier::testing {

/// A matrix of random codes under a codec, with scales such as 0.3 and 0.017 that all differ.
QTensor random_matrix(const Codec& codec, int64_t rows, int64_t cols, uint32_t seed);

/// Normal numbers, [rows, cols], where each row and some groups of a row have a size of their own.
std::vector<float> random_rows(int64_t rows, int64_t cols, uint32_t seed);

}  // namespace vernier::testing
