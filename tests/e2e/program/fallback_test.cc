#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "run_program.h"
#include "testing/temp_folder.h"

namespace vernier {
namespace {

using testing::bytes_of;
using testing::Outcome;
using testing::tiny_model;
using testing::vernier;

/// A copy of a model with one scale of one matrix made larger than its fast kernels take.
std::string with_a_large_scale(const std::string& model, const std::string& tensor, testing::TempFolder& folder) {
  constexpr float kLarge = 0x1p120f;
  for (const auto& entry : std::filesystem::directory_iterator(tiny_model(model))) {
    std::string bytes = bytes_of(entry.path());
    if (entry.path().extension() == ".safetensors") {
      uint64_t header_bytes = 0;
      std::memcpy(&header_bytes, bytes.data(), 8);
      const nlohmann::json header = nlohmann::json::parse(bytes.substr(8, header_bytes));
      if (header.contains(tensor)) {
        const size_t at = 8 + header_bytes + header.at(tensor).at("data_offsets").at(0).get<size_t>();
        std::memcpy(&bytes[at], &kLarge, sizeof kLarge);
      }
    }
    folder.write("large/" + entry.path().filename().string(), bytes);
  }
  return folder.path("large");
}

class Fallbacks : public ::testing::Test {
 protected:
  std::string logits_of(const std::string& model) {
    return "logits " + model + " --ids " + folder_.write("ids.json", "[[1, 2]]") + " --out " +
           folder_.path("out.safetensors");
  }
  testing::TempFolder folder_;
};

// API-10: what no panel of the format holds runs as float32, and says so.
TEST_F(Fallbacks, AreToldOrRefused) {
  const std::string run =
      logits_of(with_a_large_scale("llama-fp8-block", "model.layers.0.self_attn.o_proj.weight_scale_inv", folder_));
  EXPECT_EQ(vernier(run + " --on-fallback nonsense").exit_code, 2);
  const Outcome warned = vernier(run, true);
  EXPECT_NE(warned.output.find("fallback: linear (decode): float_stream_"), std::string::npos) << warned.output;
  const Outcome silent = vernier(run + " --on-fallback allow", true);
  EXPECT_EQ(silent.output.find("fallback: "), std::string::npos) << silent.output;
  const Outcome refused = vernier(run + " --on-fallback attend=warn,linear=error", true);
  EXPECT_EQ(refused.exit_code, 5) << refused.output;
  EXPECT_NE(refused.output.find("for 1 weights: scales, a scale of "), std::string::npos) << refused.output;
}

// Another level of instructions of the same kernels is the machine's, or was asked for.
TEST_F(Fallbacks, ALevelOfInstructionsIsNone) {
  for (const std::string model : {"llama", "llama-fp8-block", "gpt-oss-mxfp4", "qwen3-modelopt-mxfp8"}) {
    for (const std::string isa : {"", " --isa baseline"}) {
      const Outcome whole = vernier(logits_of(tiny_model(model)) + " --on-fallback error" + isa, true);
      EXPECT_EQ(whole.exit_code, 0) << model << isa << whole.output;
    }
  }
}

}  // namespace
}  // namespace vernier
