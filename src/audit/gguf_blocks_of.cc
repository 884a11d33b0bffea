#include "audit/gguf_blocks_of.h"

#include <cstring>

#include "base/check.h"

namespace vernier {

namespace {

uint8_t code_at(std::span<const std::byte> codes, int64_t element) {
  const auto pair = static_cast<uint8_t>(codes[static_cast<size_t>(element / 2)]);
  return element % 2 == 0 ? pair & 15 : pair >> 4;
}

/// A byte holds two elements that are `half` apart, in runs of 2 x half.
void store_halves(std::span<const std::byte> codes, int64_t first, int64_t half, std::byte* out) {
  for (int64_t i = 0; i < half; ++i) {
    out[i] = static_cast<std::byte>(code_at(codes, first + i) | code_at(codes, first + half + i) << 4);
  }
}

std::vector<std::byte> mxfp4_blocks(const QTensor::View& view) {
  constexpr int64_t kBlock = 32, kBytes = 17;
  const int64_t blocks = view.rows * view.cols / kBlock;
  std::vector<std::byte> out(static_cast<size_t>(blocks * kBytes));
  for (int64_t i = 0; i < blocks; ++i) {
    out[static_cast<size_t>(i * kBytes)] = view.inner_scales[static_cast<size_t>(i)];
    store_halves(view.codes, i * kBlock, kBlock / 2, out.data() + i * kBytes + 1);
  }
  return out;
}

/// Four groups a block: their scales, then their codes.
std::vector<std::byte> nvfp4_blocks(const QTensor::View& view) {
  constexpr int64_t kBlock = 64, kGroup = 16, kBytes = 36;
  const int64_t blocks = view.rows * view.cols / kBlock;
  std::vector<std::byte> out(static_cast<size_t>(blocks * kBytes));
  for (int64_t i = 0; i < blocks; ++i) {
    std::byte* block = out.data() + i * kBytes;
    std::memcpy(block, view.inner_scales.data() + i * kBlock / kGroup, kBlock / kGroup);
    for (int64_t group = 0; group < kBlock / kGroup; ++group) {
      store_halves(view.codes, i * kBlock + group * kGroup, kGroup / 2, block + 4 + group * kGroup / 2);
    }
  }
  return out;
}

}  // namespace

std::string_view gguf_type_of(const Codec& codec) {
  if (codec.id == CodecId::kMxfp4) return "MXFP4";
  if (codec.id == CodecId::kNvfp4) return "NVFP4";
  if (codec.is_dense() || codec.packing == Packing::kGgufBlock) return codec.disk_name;
  return {};
}

const GgmlType* ggml_type_named(std::string_view name) {
  constexpr uint32_t kTypes = 64;
  for (uint32_t id = 0; id < kTypes; ++id) {
    const GgmlType* type = ggml_type(id);
    if (type != nullptr && type->name == name) return type;
  }
  return nullptr;
}

std::vector<std::byte> gguf_blocks_of(const QTensor& matrix) {
  const QTensor::View view = matrix.view();
  if (view.codec.id == CodecId::kMxfp4) return mxfp4_blocks(view);
  if (view.codec.id == CodecId::kNvfp4) return nvfp4_blocks(view);
  CHECK(view.inner_scales.empty() && view.outer_scales.empty(), "{} has scales beside its codes", view.codec.name);
  return {view.codes.begin(), view.codes.end()};
}

}  // namespace vernier
