#pragma once

#include <cstdint>

/// What crosses the border to a kernel. C++17 on both sides and no header of CUDA, so that the rest of the program
/// reads it, too. A pointer to codes stands in this file alone, beside every scale that acts on them
/// (tools/check_layers.py).
namespace vernier::cuda {

/// Two calls with equal arguments do the same launch: what a step's graph is compared by.
#if __cplusplus >= 202002L
#define VERNIER_COMPARED(Type) friend bool operator==(const Type&, const Type&) = default;
#else
#define VERNIER_COMPARED(Type)
#endif

/// How codes lie and what they mean, as far as a kernel's instance depends on it.
enum class Codes : uint8_t {
  kF32,
  kF16,
  kBF16,
  kE4M3,
  kE5M2,
  kE2M1,  ///< two a byte, the even element in the low nibble
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kGgufMxfp4,
};
inline constexpr int kCodesKinds = 17;

enum class ScaleKind : uint8_t { kNone, kF32, kE8M0, kE4M3 };

/// Rows of a matrix as the file has them, with every scale: a value is element x inner scale x outer scale. Rows that
/// do not share an outer scale are views of their own. Owns nothing.
struct QView {
  const unsigned char* codes = nullptr;         ///< of row 0 of the tensor that the view is a part of
  const unsigned char* inner_scales = nullptr;  ///< [groups down, groups across] of that tensor; null: none
  int64_t row_bytes = 0;
  int64_t first_row = 0;  ///< of the tensor
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t group_rows = 1;  ///< whole extents where the codec says 0
  int64_t group_cols = 1;
  int64_t groups_across = 1;
  float outer_scale = 1;
  Codes kind = Codes::kF32;
  ScaleKind inner = ScaleKind::kNone;
  VERNIER_COMPARED(QView)
};

enum class KvNumbers : uint8_t { kF32, kF16, kBF16, kE4M3, kE5M2 };
enum class KvPart : uint8_t { kKeys, kValues };

constexpr int kv_number_bytes(KvNumbers stored) {
  return stored == KvNumbers::kF32 ? 4 : stored == KvNumbers::kF16 || stored == KvNumbers::kBF16 ? 2 : 1;
}

/// One layer's keys (or values): codes, stored type, scales and extents as one value; [block, kv_head, token in block,
/// dim]. Keys and values are different types. Owns nothing.
template <KvPart P>
struct KvView {
  unsigned char* codes = nullptr;
  const float* scales = nullptr;  ///< [kv_heads] read = stored * scale; 1 for a type without scales
  KvNumbers stored = KvNumbers::kF16;
  int32_t block_tokens = 1;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  VERNIER_COMPARED(KvView)
};
using KeyView = KvView<KvPart::kKeys>;
using ValueView = KvView<KvPart::kValues>;

/// One cache class's block tables in device memory; see CacheTable.
struct TableView {
  const int32_t* blocks = nullptr;
  const int32_t* begin = nullptr;           ///< [sequences + 1]
  const int32_t* first_position = nullptr;  ///< [sequences]
  int32_t block_tokens = 1;
  VERNIER_COMPARED(TableView)
};

/// The rows of a step in device memory.
struct RowsView {
  const int32_t* positions = nullptr;       ///< [rows]
  const int32_t* sequence = nullptr;        ///< [rows] index of each row's sequence
  const int32_t* first_row = nullptr;       ///< [sequences]
  const int32_t* first_position = nullptr;  ///< [sequences]
  const int32_t* row_count = nullptr;       ///< [sequences]
  int32_t rows = 0;
  VERNIER_COMPARED(RowsView)
};

/// A matrix of float32 activations, or some of its columns.
struct Rows {
  float* data = nullptr;
  int64_t stride = 0;  ///< from one row to the next
  VERNIER_COMPARED(Rows)
};
struct ConstRows {
  const float* data = nullptr;
  int64_t stride = 0;

  ConstRows() = default;
  ConstRows(const float* at, int64_t step) : data(at), stride(step) {}
  ConstRows(Rows rows) : data(rows.data), stride(rows.stride) {}
  VERNIER_COMPARED(ConstRows)
};

}  // namespace vernier::cuda
