#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "tensor/codec.h"

namespace vernier {

/// The first of these codes of a plain packing that is a NaN or an infinity. E2M1 has neither.
std::optional<int64_t> find_not_finite(Element element, std::span<const std::byte> codes);

}  // namespace vernier
