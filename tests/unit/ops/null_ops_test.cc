#include <gmock/gmock.h>

#include "ops/null_backend.h"
#include "tensor/tensor.h"
#include "testing/step_driver.h"

namespace vernier {
namespace {

using ::testing::ElementsAre;
using testing::StepDriver;

class NullOpsTest : public ::testing::Test {
 protected:
  Weight<Split::kNone> weight(const char* name, int64_t rows, int64_t cols) {
    std::vector<float> zeros(static_cast<size_t>(rows * cols));
    QTensor dense = QTensor::from_dense(Tensor::from_floats(Shape{rows, cols}, zeros), name).value();
    return {name, backend_.pack(std::span(&dense, 1), PackUse::kLinear).value(), nullptr, {}};
  }
  CacheSpec cache() {
    CacheSpec spec;
    spec.kv_heads = 1;
    spec.head_dim = 2;
    return spec;
  }
  NullBackend backend_;
};

// OPS-6, OPS-2: bytes are those of the activations that live together, and handles give theirs back, once.
TEST_F(NullOpsTest, CountsLiveBytes) {
  StepDriver driver(backend_, {cache()}, {});
  auto& ops = dynamic_cast<NullOps&>(driver.ops());
  driver.begin({{1, 2, 3}});
  {
    Value x = ops.embed(weight("table", 10, 4), 1);  // 48 bytes
    {
      Value wide = ops.linear(x, weight("wide", 16, 4));  // 192
    }
    EXPECT_EQ(ops.peak_bytes(), 240);
    x = ops.linear(x, weight("small", 2, 4));  // 24, with x still alive
    EXPECT_EQ(ops.peak_bytes(), 240);
    Value wider = ops.linear(x, weight("wider", 20, 2));  // 24 + 240
    EXPECT_EQ(ops.peak_bytes(), 264);
  }
  driver.begin({{4}});  // nothing lives on
}

TEST_F(NullOpsTest, TracesShapes) {
  StepDriver driver(backend_, {cache()}, {});
  auto& ops = dynamic_cast<NullOps&>(driver.ops());
  driver.begin({{1, 2, 3}});
  Value x = ops.embed(weight("table", 10, 4), 2);
  Value y = ops.linear(ops.select_rows(x), weight("head", 7, 4));
  EXPECT_EQ(y.cols(), 7);
  EXPECT_THAT(ops.trace(), ElementsAre("embed table x2 -> [3, 4]", "select_rows [3, 4] -> [3, 4]",
                                       "linear head whole [3, 4] -> [3, 7]"));
  EXPECT_FALSE(ops.read(y).ok());
  EXPECT_FALSE(ops.sample(y, {}).ok());
}

TEST_F(NullOpsTest, CountsWeightsAndCacheWithoutHoldingThem) {
  weight("a", 8, 4);
  EXPECT_EQ(backend_.weight_bytes(), 128);
  CacheSpec spec = cache();
  spec.stored = CodecId::kF16;
  auto kv = backend_.make_kv(KvLayout{{spec}, {1 << 30}, 16});
  ASSERT_TRUE(kv.ok());
  EXPECT_EQ((*kv)->bytes(), (int64_t{1} << 34) * 8);
}

}  // namespace
}  // namespace vernier
