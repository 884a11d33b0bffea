#include <cmath>
#include <cstring>

#include "checkpoint/scale_tensor.h"
#include "checkpoint/stored_module.h"

namespace vernier {

namespace {

constexpr int64_t kBlock = 64, kGroup = 16;

/// 64 numbers as GGUF keeps them: a scale for each 16, then their codes, in
/// each byte two that are eight apart.
struct Block {
  uint8_t scales[4];
  uint8_t codes[32];
};
static_assert(sizeof(Block) == 36);

/// The same codes with neighbours in one byte.
void store_neighbours(const Block& block, std::byte* to) {
  for (int64_t i = 0; i < kBlock; i += 2) {
    auto code = [&](int64_t element) {
      const uint8_t pair = block.codes[element / kGroup * 8 + element % 8];
      return element % kGroup < 8 ? pair & 15 : pair >> 4;
    };
    to[i / 2] = static_cast<std::byte>(code(i) | code(i + 1) << 4);
  }
}

}  // namespace

Result<QTensor> read_gguf_nvfp4(StoredModule& module) {
  const StoredTensor& codes = module.codes;
  if (codes.extents != std::vector{module.rows, module.cols} || module.cols % kBlock != 0) {
    return tensor_error(codes, ErrorCode::kCorrupt,
                        fmt::format("has shape {}, but the configuration asks for [{}, {}]", shape_text(codes.extents),
                                    module.rows, module.cols));
  }
  const int64_t blocks = module.rows * module.cols / kBlock;
  std::vector<std::byte> neighbours(static_cast<size_t>(blocks * kBlock / 2));
  std::vector<std::byte> scales(static_cast<size_t>(blocks * kBlock / kGroup));
  for (int64_t i = 0; i < blocks; ++i) {
    Block block;
    std::memcpy(&block, codes.bytes.data() + i * static_cast<int64_t>(sizeof(block)), sizeof(block));
    store_neighbours(block, neighbours.data() + i * kBlock / 2);
    std::memcpy(scales.data() + i * 4, block.scales, 4);
  }
  float outer = 1;
  if (const StoredTensor* global = module.checkpoint.find(module.name + ".scale")) {
    TRY_BIND(outer, read_one_scale(*global));
    module.sources.push_back({global, TensorUse::kScale});
  }
  Result<QTensor> made = QTensor::make({codec(CodecId::kNvfp4),
                                        module.rows,
                                        module.cols,
                                        Bytes(std::move(neighbours)),
                                        Bytes(std::move(scales)),
                                        {outer},
                                        {},
                                        module.origin()});
  if (!made.ok()) return tensor_error(codes, made.error().code, made.error().message);
  return made;
}

}  // namespace vernier
