#include <gmock/gmock.h>

#include "unit/models/family_configs.h"

namespace vernier {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using testing::error_of;
using ::testing::HasSubstr;
using testing::llama_config;
using testing::read;

TEST(Registry, FindsByArchitectureWhereThereIsNoType) {
  json config = llama_config();
  config.erase("model_type");
  auto spec = read(config);
  ASSERT_TRUE(spec.ok()) << spec.error().to_string();
  EXPECT_EQ(spec->family, "llama");
  config = llama_config();
  config.erase("architectures");
  EXPECT_EQ(read(config)->family, "llama");
}

// MODELS-4: what is not built is refused by name, with what it waits for.
TEST(Registry, RecognisesWhatIsNotBuiltYet) {
  for (const char* type : {"qwen2_moe", "deepseek_v32", "longcat", "phi3"}) {
    json config = llama_config();
    config["model_type"] = type;
    config["architectures"] = {"SomethingForCausalLM"};
    EXPECT_THAT(error_of(config), AllOf(HasSubstr(std::string("'") + type + "' is recognised and not built yet"),
                                        HasSubstr("it waits for")));
  }
}

TEST(Registry, UnknownTypesGetTheListOfSupported) {
  json config = llama_config();
  config["model_type"] = "hal9000";
  std::string message = error_of(config);
  EXPECT_THAT(message, HasSubstr("'hal9000' is unknown"));
  for (const std::string& type : supported_model_types()) EXPECT_THAT(message, HasSubstr(type));
  EXPECT_THAT(error_of(json::object()), HasSubstr("neither 'model_type' nor 'architectures' is set"));
  EXPECT_THAT(error_of(json::array()), HasSubstr("supported are"));
}

TEST(Registry, AnotherHeadOfAKnownTypeIsRefused) {
  json config = llama_config();
  config["architectures"] = {"LlamaForSequenceClassification"};
  EXPECT_THAT(error_of(config), HasSubstr("'LlamaForSequenceClassification' of model type 'llama' is not built"));
  config["architectures"] = "LlamaForCausalLM";
  EXPECT_THAT(error_of(config), HasSubstr("'architectures' is no list"));
}

}  // namespace
}  // namespace vernier
