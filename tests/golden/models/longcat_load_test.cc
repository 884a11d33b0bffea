#include <gmock/gmock.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <sstream>

#include "ops/ref_backend.h"
#include "testing/golden_model.h"
#include "testing/safetensors_writer.h"
#include "testing/temp_folder.h"

namespace vernier {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kFolder = VERNIER_TEST_DATA "/models/longcat-flash";

/// What the load says of the checkpoint after `change` of each tensor's name and bytes; a name that is emptied is left
/// out.
std::string load_changed(const std::function<void(std::string&, std::string&)>& change,
                         const std::string& surplus = "") {
  testing::TempFolder folder;
  std::ostringstream config;
  config << std::ifstream(kFolder + "/config.json").rdbuf();
  folder.write("config.json", config.str());
  testing::SafetensorsWriter writer;
  auto file = Safetensors::open(kFolder + "/model.safetensors").value();
  for (const SafetensorsTensor& tensor : file->tensors()) {
    std::string name = tensor.name, bytes(tensor.bytes.size(), '\0');
    std::memcpy(bytes.data(), tensor.bytes.data(), bytes.size());
    change(name, bytes);
    if (!name.empty()) writer.tensor(name, tensor.extents, std::string(tensor.type->name), bytes);
  }
  if (!surplus.empty()) writer.f32(surplus, {2}, {1, 2});
  folder.write("model.safetensors", writer.bytes());
  RefBackend backend;
  auto decoder = testing::load_decoder(folder.path(), backend);
  return decoder.ok() ? "no error" : decoder.error().to_string();
}

void keep(std::string&, std::string&) {}

// CKPT-6 for layers of two attentions: nothing of either is left out, unread or no number.
TEST(LongCatLoad, ATensorThatIsNoNumberMissingOrTooMuchStopsIt) {
  EXPECT_EQ(load_changed(keep), "no error");
  for (const char* of : {"model.layers.0.self_attn.1.kv_a_layernorm.weight", "model.layers.1.mlps.1.down_proj.weight",
                         "model.layers.1.mlp.experts.7.up_proj.weight", "model.layers.0.self_attn.1.kv_b_proj.weight",
                         "model.layers.0.mlp.router.classifier.weight"}) {
    const auto damage = [&](std::string& name, std::string& bytes) {
      if (name == of) bytes[2] = '\xff', bytes[3] = '\x7f';  // bf16
    };
    EXPECT_THAT(load_changed(damage), AllOf(HasSubstr(of), HasSubstr("the file is damaged"))) << of;
    const auto drop = [&](std::string& name, std::string&) {
      if (name == of) name.clear();
    };
    EXPECT_THAT(load_changed(drop), AllOf(HasSubstr(of), HasSubstr("missing"))) << of;
  }
  for (const char* surplus : {"model.layers.0.mlp.experts.8.up_proj.weight", "model.layers.0.mlps.2.down_proj.weight",
                              "model.layers.1.self_attn.2.o_proj.weight", "model.layers.2.input_layernorm.0.weight",
                              "model.layers.0.mlp.router.classifier.bias"}) {
    EXPECT_THAT(load_changed(keep, surplus), HasSubstr(surplus)) << surplus;
  }
  EXPECT_THAT(load_changed(keep, "model.ngram_embeddings.embedders.0.weight"), HasSubstr("embedders.0 is stored"));
  // Layers that predict further tokens are known and not needed.
  EXPECT_EQ(load_changed(keep, "model.mtp.layers.0.eh_proj.weight"), "no error");
}

}  // namespace
}  // namespace vernier
