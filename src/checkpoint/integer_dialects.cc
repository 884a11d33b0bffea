#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "checkpoint/byte_reader.h"
#include "checkpoint/integer_matrix.h"
#include "checkpoint/scale_tensor.h"
#include "checkpoint/stored_module.h"

namespace vernier {

namespace {

Status check_extents(const StoredTensor& tensor, std::string_view type, const std::vector<int64_t>& extents) {
  if (tensor.type == type && tensor.extents == extents) return {};
  return tensor_error(tensor, ErrorCode::kCorrupt,
                      fmt::format("is {} of {}, expected {} of {}", shape_text(tensor.extents), tensor.type,
                                  shape_text(extents), type));
}

Result<const StoredTensor*> require(StoredModule& module, const char* name, const char* what) {
  TRY_BIND(const StoredTensor* tensor, find_one(module, std::span(&name, 1), what));
  module.sources.push_back({tensor, TensorUse::kScale});
  return tensor;
}

const StoredTensor* optional_tensor(StoredModule& module, const char* name) {
  const StoredTensor* tensor = module.checkpoint.find(module.name + name);
  if (tensor != nullptr) module.sources.push_back({tensor, TensorUse::kScale});
  return tensor;
}

/// Floating numbers of exactly these extents; scales must be above 0.
Result<std::vector<float>> read_level(const StoredTensor& tensor, const std::vector<int64_t>& extents, bool positive) {
  if (tensor.extents != extents) {
    return tensor_error(tensor, ErrorCode::kCorrupt,
                        fmt::format("has shape {}, expected {}", shape_text(tensor.extents), shape_text(extents)));
  }
  TRY_BIND(std::vector<float> values, read_floats(tensor));
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i]) && (!positive || values[i] > 0)) continue;
    return tensor_error(
        tensor, ErrorCode::kCorrupt,
        fmt::format("number {} is {}, expected a finite one{}", i, values[i], positive ? " above 0" : ""));
  }
  return values;
}

/// [rows, cols] of a matrix that is stored as [cols, rows].
template <class T>
std::vector<T> transposed(const std::vector<T>& stored, int64_t rows, int64_t cols) {
  std::vector<T> turned(stored.size());
  for (int64_t col = 0; col < cols; ++col) {
    for (int64_t row = 0; row < rows; ++row) {
      turned[static_cast<size_t>(row * cols + col)] = stored[static_cast<size_t>(col * rows + row)];
    }
  }
  return turned;
}

IntegerMatrix empty_matrix(const StoredModule& module) {
  IntegerMatrix matrix;
  matrix.rows = module.rows;
  matrix.cols = module.cols;
  matrix.group_cols = module.scheme.group == 0 ? module.cols : module.scheme.group;
  return matrix;
}

/// Codes less the zero of their group, [rows, groups].
void subtract_zeros(IntegerMatrix& matrix, const std::vector<int16_t>& zeros) {
  for (int64_t row = 0; row < matrix.rows; ++row) {
    for (int64_t col = 0; col < matrix.cols; ++col) {
      const int64_t group =
          matrix.column_groups.empty() ? col / matrix.group_cols : matrix.column_groups[static_cast<size_t>(col)];
      int16_t& code = matrix.codes[static_cast<size_t>(row * matrix.cols + col)];
      code = static_cast<int16_t>(code - zeros[static_cast<size_t>(row * matrix.groups() + group)]);
    }
  }
}

Result<QTensor> finish(StoredModule& module, IntegerMatrix& matrix) {
  matrix.origin = module.origin();
  Result<QTensor> made = to_exact_codec(matrix);
  if (!made.ok()) return tensor_error(*module.sources[1].tensor, made.error().code, made.error().message);
  return made;
}

/// Numbers of `bits` bits, [extents], from a tensor whose last extent counts words of 32 bits.
Result<std::vector<int16_t>> unpack_words(const StoredTensor& tensor, int bits, int64_t lines, int64_t each) {
  TRY_STATUS(check_extents(tensor, "I32", {lines, (each * bits + 31) / 32}));
  std::vector<int16_t> codes;
  codes.reserve(static_cast<size_t>(lines * each));
  const size_t line_bytes = static_cast<size_t>((each * bits + 31) / 32) * 4;
  for (int64_t line = 0; line < lines; ++line) {
    std::vector<int16_t> own =
        unpack_bits(tensor.bytes.subspan(static_cast<size_t>(line) * line_bytes, line_bytes), bits, each);
    codes.insert(codes.end(), own.begin(), own.end());
  }
  return codes;
}

/// AWQ packs eight neighbouring outputs into a word, the even ones before the odd ones.
void undo_awq_order(std::vector<int16_t>& codes) {
  constexpr std::array<size_t, 8> kOutputOfNibble = {0, 2, 4, 6, 1, 3, 5, 7};
  for (size_t at = 0; at + 8 <= codes.size(); at += 8) {
    std::array<int16_t, 8> packed;
    std::copy_n(codes.begin() + static_cast<std::ptrdiff_t>(at), 8, packed.begin());
    for (size_t nibble = 0; nibble < 8; ++nibble) codes[at + kOutputOfNibble[nibble]] = packed[nibble];
  }
}

Result<QTensor> read_awq_matrix(StoredModule& module) {
  IntegerMatrix matrix = empty_matrix(module);
  const int64_t groups = matrix.groups();
  if (module.rows % 8 != 0) {
    return tensor_error(module.codes, ErrorCode::kUnsupported, fmt::format("{} outputs, not by eight", module.rows));
  }
  TRY_BIND(const StoredTensor* scales, require(module, ".scales", "scale"));
  TRY_BIND(const StoredTensor* zeros, require(module, ".qzeros", "zero point"));
  TRY_BIND(std::vector<int16_t> codes, unpack_words(module.codes, 4, module.cols, module.rows));
  TRY_BIND(std::vector<int16_t> zero_codes, unpack_words(*zeros, 4, groups, module.rows));
  TRY_BIND(std::vector<float> levels, read_level(*scales, {groups, module.rows}, true));
  undo_awq_order(codes);
  undo_awq_order(zero_codes);
  matrix.codes = transposed(codes, module.rows, module.cols);
  matrix.scales = transposed(levels, module.rows, groups);
  subtract_zeros(matrix, transposed(zero_codes, module.rows, groups));
  return finish(module, matrix);
}

/// Groups of columns in the order in which they were quantised; empty where they lie one behind the other.
Result<std::vector<int32_t>> read_column_groups(const StoredModule& module, const StoredTensor& tensor,
                                                const IntegerMatrix& matrix) {
  TRY_STATUS(check_extents(tensor, "I32", {module.cols}));
  std::vector<int32_t> groups(static_cast<size_t>(module.cols));
  std::memcpy(groups.data(), tensor.bytes.data(), tensor.bytes.size());
  bool in_order = true;
  for (size_t col = 0; col < groups.size(); ++col) {
    if (groups[col] < 0 || groups[col] >= matrix.groups()) {
      return tensor_error(
          tensor, ErrorCode::kCorrupt,
          fmt::format("puts column {} into group {}, expected 0 to {}", col, groups[col], matrix.groups() - 1));
    }
    in_order = in_order && groups[col] == static_cast<int64_t>(col) / matrix.group_cols;
  }
  return in_order ? std::vector<int32_t>() : groups;
}

Result<QTensor> read_gptq_matrix(StoredModule& module) {
  IntegerMatrix matrix = empty_matrix(module);
  const int64_t groups = matrix.groups();
  const int bits = module.scheme.bits;
  const int64_t each = 32 / bits;
  if (module.cols % each != 0) {
    return tensor_error(module.codes, ErrorCode::kUnsupported,
                        fmt::format("{} columns, expected a multiple of {}", module.cols, each));
  }
  TRY_STATUS(check_extents(module.codes, "I32", {module.cols / each, module.rows}));
  TRY_BIND(const StoredTensor* scales, require(module, ".scales", "scale"));
  TRY_BIND(const StoredTensor* zeros, require(module, ".qzeros", "zero point"));
  if (const StoredTensor* order = optional_tensor(module, ".g_idx")) {
    TRY_BIND(matrix.column_groups, read_column_groups(module, *order, matrix));
  }
  // Each word holds neighbouring columns of one row: [columns / each, rows].
  std::vector<int16_t> words = unpack_bits(module.codes.bytes, bits, module.rows * module.cols);
  matrix.codes.resize(words.size());
  for (int64_t at = 0; at < module.rows * module.cols; ++at) {
    const int64_t word = at / each;
    const int64_t row = word % module.rows, col = word / module.rows * each + at % each;
    matrix.codes[static_cast<size_t>(row * module.cols + col)] = words[static_cast<size_t>(at)];
  }
  TRY_BIND(std::vector<int16_t> zero_codes, unpack_words(*zeros, bits, groups, module.rows));
  if (module.scheme.zeros_less_one) {
    for (int16_t& zero : zero_codes) zero = static_cast<int16_t>((zero + 1) & ((1 << bits) - 1));
  }
  TRY_BIND(std::vector<float> levels, read_level(*scales, {groups, module.rows}, true));
  matrix.scales = transposed(levels, module.rows, groups);
  subtract_zeros(matrix, transposed(zero_codes, module.rows, groups));
  return finish(module, matrix);
}

std::vector<int16_t> signed_bytes(const StoredTensor& tensor) {
  std::vector<int16_t> codes(tensor.bytes.size());
  std::transform(tensor.bytes.begin(), tensor.bytes.end(), codes.begin(),
                 [](std::byte byte) { return static_cast<int16_t>(static_cast<int8_t>(byte)); });
  return codes;
}

/// Scales [rows, groups]; fewer of them stand for all rows, or for all of a row.
Result<std::vector<float>> read_ct_scales(const StoredModule& module, const StoredTensor& tensor, int64_t groups) {
  const bool is_one = tensor.bytes.size() <= 4 && tensor.extents.size() <= 2;
  TRY_BIND(std::vector<float> values,
           read_level(tensor, is_one || tensor.extents.size() == 1 ? tensor.extents : std::vector{module.rows, groups},
                      true));
  const auto expected = static_cast<size_t>(module.rows * groups);
  if (values.size() == 1) values.resize(expected, values[0]);
  if (values.size() != expected) {
    return tensor_error(
        tensor, ErrorCode::kCorrupt,
        fmt::format("has shape {}, expected [{}, {}]", shape_text(tensor.extents), module.rows, groups));
  }
  return values;
}

/// Zero points of compressed-tensors: packed along the rows, or a byte each.
Result<std::vector<int16_t>> read_ct_zeros(const StoredModule& module, const StoredTensor& tensor, int64_t groups) {
  const int bits = module.scheme.bits;
  if (tensor.type != "I32") {
    TRY_STATUS(check_extents(tensor, "I8", {module.rows, groups}));
    return signed_bytes(tensor);
  }
  const int64_t each = 32 / bits, lines = (module.rows + each - 1) / each;
  TRY_STATUS(check_extents(tensor, "I32", {lines, groups}));
  std::vector<int16_t> packed = unpack_bits(tensor.bytes, bits, lines * groups * each);
  std::vector<int16_t> zeros(static_cast<size_t>(module.rows * groups));
  for (int64_t row = 0; row < module.rows; ++row) {
    for (int64_t group = 0; group < groups; ++group) {
      const auto at = static_cast<size_t>((row / each * groups + group) * each + row % each);
      zeros[static_cast<size_t>(row * groups + group)] = static_cast<int16_t>(packed[at] - (1 << (bits - 1)));
    }
  }
  return zeros;
}

/// Integers of compressed-tensors: packed into words with their sign bit turned, or a byte each.
Result<QTensor> read_compressed_integers(StoredModule& module) {
  IntegerMatrix matrix = empty_matrix(module);
  const int64_t groups = matrix.groups();
  const int bits = module.scheme.bits;
  if (module.scheme.form == WeightForm::kPackedInteger) {
    TRY_BIND(matrix.codes, unpack_words(module.codes, bits, module.rows, module.cols));
    for (int16_t& code : matrix.codes) code = static_cast<int16_t>(code - (1 << (bits - 1)));
  } else {
    TRY_STATUS(check_extents(module.codes, "I8", {module.rows, module.cols}));
    matrix.codes = signed_bytes(module.codes);
  }
  TRY_BIND(const StoredTensor* scales, require(module, ".weight_scale", "scale"));
  TRY_BIND(matrix.scales, read_ct_scales(module, *scales, groups));
  if (const StoredTensor* shape = optional_tensor(module, ".weight_shape")) {
    int64_t extents[2] = {0, 0};
    if (shape->type == "I64" && shape->bytes.size() == sizeof(extents)) {
      std::memcpy(extents, shape->bytes.data(), sizeof(extents));
    }
    if (extents[0] != module.rows || extents[1] != module.cols) {
      return tensor_error(*shape, ErrorCode::kCorrupt,
                          fmt::format("says [{}, {}], but the configuration asks for [{}, {}]", extents[0], extents[1],
                                      module.rows, module.cols));
    }
  }
  if (const StoredTensor* order = optional_tensor(module, ".weight_g_idx")) {
    TRY_BIND(matrix.column_groups, read_column_groups(module, *order, matrix));
  }
  const StoredTensor* zeros = optional_tensor(module, ".weight_zero_point");
  if (zeros == nullptr && !module.scheme.symmetric) {
    return tensor_error(module.codes, ErrorCode::kCorrupt, "its zero points are missing: expected weight_zero_point");
  }
  if (zeros != nullptr) {
    TRY_BIND(std::vector<int16_t> values, read_ct_zeros(module, *zeros, groups));
    subtract_zeros(matrix, values);
  }
  return finish(module, matrix);
}

/// MLX: numbers without gaps in U32, a scale and a minimum for each group.
Result<QTensor> read_mlx(StoredModule& module) {
  IntegerMatrix matrix = empty_matrix(module);
  const int bits = module.scheme.bits;
  if (module.cols * bits % 32 != 0 || module.cols % matrix.group_cols != 0) {
    return tensor_error(module.codes, ErrorCode::kUnsupported,
                        fmt::format("{} columns of {} bits in groups of {}", module.cols, bits, matrix.group_cols));
  }
  TRY_STATUS(check_extents(module.codes, "U32", {module.rows, module.cols * bits / 32}));
  TRY_BIND(const StoredTensor* scales, require(module, ".scales", "scale"));
  TRY_BIND(const StoredTensor* minimums, require(module, ".biases", "group minimum"));
  matrix.codes = unpack_bits(module.codes.bytes, bits, module.rows * module.cols);
  // A scale may be negative: the group's largest magnitude is always met exactly.
  TRY_BIND(matrix.scales, read_level(*scales, {module.rows, matrix.groups()}, false));
  TRY_BIND(matrix.minimums, read_level(*minimums, {module.rows, matrix.groups()}, false));
  return finish(module, matrix);
}

}  // namespace

Result<QTensor> read_integers(StoredModule& module) {
  switch (module.scheme.form) {
    case WeightForm::kAwq:
      return read_awq_matrix(module);
    case WeightForm::kGptq:
      return read_gptq_matrix(module);
    case WeightForm::kMlx:
      return read_mlx(module);
    default:
      return read_compressed_integers(module);
  }
}

}  // namespace vernier
