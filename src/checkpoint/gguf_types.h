#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "tensor/codec.h"

namespace vernier {

/// Types of GGUF metadata values, by their number in the file.
enum class GgufType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

/// Bytes of one value; 0 for strings and arrays, which say their own length.
size_t size_bytes(GgufType type);
std::string_view name(GgufType type);

/// A GGUF tensor type: how many numbers one block holds and in how many bytes. `codec` is what this program computes
/// with; absent for types that it only recognises.
struct GgmlType {
  uint32_t id;
  std::string_view name;
  uint32_t block_elements;
  uint32_t block_bytes;
  std::optional<CodecId> codec;
};

/// Null for numbers that name no type, or one that was taken out of the format.
const GgmlType* ggml_type(uint32_t id);

}  // namespace vernier
