#include "app/bench_kernels.h"

#include <gmock/gmock.h>

namespace vernier {
namespace {

std::string refusal(const std::string& backend, const std::string& only, const std::string& json = "") {
  BenchKernelsFlags flags;
  flags.device.backend = backend;
  flags.only = only;
  flags.json = json;
  const Status status = run_bench_kernels(flags);
  return status.ok() ? "" : status.error().message;
}

TEST(BenchKernels, SaysWhatIsMissing) {
  EXPECT_THAT(refusal("cpu", ""), ::testing::HasSubstr("--backend cpu"));
  EXPECT_THAT(refusal("cuda", "no such row"), ::testing::HasSubstr("no such row"));
  EXPECT_THAT(refusal("cuda", "", "/no/such/folder/out.json"), ::testing::HasSubstr("/no/such/folder"));
  const BackendPresence presence = cuda_presence();
  if (presence.built && presence.reason.empty()) return;  // a GPU answers
  EXPECT_THAT(refusal("cuda", "experts"), ::testing::AnyOf(::testing::HasSubstr("GPU"), ::testing::HasSubstr("cuda")));
}

TEST(BenchKernels, JsonHasLimitsTimesAndGoals) {
  const KernelRow plain{"a", ProductWork{}, {{GoalOf::kCopy, 0.5}}}, timed{"b", ProductWork{}, {{GoalOf::kTokens, 9}}};
  const std::vector<KernelResult> results = {{plain, {2e-6, 100, 0}}, {timed, {0.5, 0, 0}}};
  const nlohmann::ordered_json json =
      kernels_json({"a chip", "", 1, Numerics::kFast}, {1e8, {}, "no library"}, results);
  EXPECT_EQ(json["device"], "a chip");
  EXPECT_EQ(json["copy_bytes_per_s"], 1e8);
  EXPECT_EQ(json["cublas_missing"], "no library");
  EXPECT_FALSE(json.contains("cublas_bf16_ops_per_s"));
  EXPECT_EQ(json["rows"][0]["microseconds"], 2);
  EXPECT_EQ(json["rows"][0]["of_copy"], 0.5);
  EXPECT_EQ(json["rows"][0]["goals"][0]["met"], true);
  EXPECT_FALSE(json["rows"][1].contains("bytes"));
  EXPECT_EQ(json["rows"][1]["goals"][0]["reached"], 2);
  EXPECT_EQ(json["rows"][1]["goals"][0]["met"], false);
}

}  // namespace
}  // namespace vernier
