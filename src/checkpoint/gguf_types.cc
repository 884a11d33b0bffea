#include "checkpoint/gguf_types.h"

#include <algorithm>
#include <array>

namespace vernier {

size_t size_bytes(GgufType type) {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kBool:
      return 1;
    case GgufType::kU16:
    case GgufType::kI16:
      return 2;
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kF32:
      return 4;
    case GgufType::kU64:
    case GgufType::kI64:
    case GgufType::kF64:
      return 8;
    case GgufType::kString:
    case GgufType::kArray:
      return 0;
  }
  return 0;
}

std::string_view name(GgufType type) {
  constexpr std::array<std::string_view, 13> kNames = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                                       "bool", "string", "array", "u64", "i64", "f64"};
  auto index = static_cast<size_t>(type);
  return index < kNames.size() ? kNames[index] : "unknown";
}

namespace {

using enum CodecId;

constexpr std::array kGgmlTypes = {
    GgmlType{0, "F32", 1, 4, kF32},        GgmlType{1, "F16", 1, 2, kF16},
    GgmlType{2, "Q4_0", 32, 18, kQ4_0},    GgmlType{3, "Q4_1", 32, 20, kQ4_1},
    GgmlType{6, "Q5_0", 32, 22, kQ5_0},    GgmlType{7, "Q5_1", 32, 24, kQ5_1},
    GgmlType{8, "Q8_0", 32, 34, kQ8_0},    GgmlType{9, "Q8_1", 32, 40, {}},
    GgmlType{10, "Q2_K", 256, 84, kQ2_K},  GgmlType{11, "Q3_K", 256, 110, kQ3_K},
    GgmlType{12, "Q4_K", 256, 144, kQ4_K}, GgmlType{13, "Q5_K", 256, 176, kQ5_K},
    GgmlType{14, "Q6_K", 256, 210, kQ6_K}, GgmlType{15, "Q8_K", 256, 292, {}},
    GgmlType{16, "IQ2_XXS", 256, 66, {}},  GgmlType{17, "IQ2_XS", 256, 74, {}},
    GgmlType{18, "IQ3_XXS", 256, 98, {}},  GgmlType{19, "IQ1_S", 256, 50, {}},
    GgmlType{20, "IQ4_NL", 32, 18, {}},    GgmlType{21, "IQ3_S", 256, 110, {}},
    GgmlType{22, "IQ2_S", 256, 82, {}},    GgmlType{23, "IQ4_XS", 256, 136, {}},
    GgmlType{24, "I8", 1, 1, {}},          GgmlType{25, "I16", 1, 2, {}},
    GgmlType{26, "I32", 1, 4, {}},         GgmlType{27, "I64", 1, 8, {}},
    GgmlType{28, "F64", 1, 8, {}},         GgmlType{29, "IQ1_M", 256, 56, {}},
    GgmlType{30, "BF16", 1, 2, kBF16},     GgmlType{34, "TQ1_0", 256, 54, {}},
    GgmlType{35, "TQ2_0", 256, 66, {}},    GgmlType{39, "MXFP4", 32, 17, kGgufMxfp4},
    GgmlType{40, "NVFP4", 64, 36, {}},     GgmlType{41, "Q1_0", 128, 18, {}},
};

}  // namespace

const GgmlType* ggml_type(uint32_t id) {
  const auto* found =
      std::find_if(kGgmlTypes.begin(), kGgmlTypes.end(), [id](const GgmlType& type) { return type.id == id; });
  return found == kGgmlTypes.end() ? nullptr : found;
}

}  // namespace vernier
