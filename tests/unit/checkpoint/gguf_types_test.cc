#include "checkpoint/gguf_types.h"

#include <gtest/gtest.h>

namespace vernier {
namespace {

TEST(GgufTypes, BlockSizesAgreeWithTheCodecs) {
  int with_codec = 0;
  for (uint32_t id = 0; id < 64; ++id) {
    const GgmlType* type = ggml_type(id);
    if (type == nullptr || !type->codec) continue;
    ++with_codec;
    EXPECT_EQ(static_cast<int64_t>(type->block_bytes), codec(*type->codec).row_bytes(type->block_elements))
        << type->name;
    EXPECT_EQ(type->name, codec(*type->codec).disk_name);
  }
  EXPECT_EQ(with_codec, 14);
}

}  // namespace
}  // namespace vernier
