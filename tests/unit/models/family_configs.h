#pragma once

#include <nlohmann/json.hpp>

#include "models/registry.h"

namespace vernier::testing {

inline nlohmann::json llama_config() {
  return {{"model_type", "llama"},
          {"architectures", {"LlamaForCausalLM"}},
          {"vocab_size", 320},
          {"hidden_size", 64},
          {"intermediate_size", 160},
          {"num_hidden_layers", 3},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"max_position_embeddings", 256}};
}

inline nlohmann::json config_of(const char* model_type, const char* architecture) {
  nlohmann::json config = llama_config();
  config["model_type"] = model_type;
  config["architectures"] = {architecture};
  return config;
}

inline Result<DecoderSpec> read(nlohmann::json tree) {
  Config config(std::move(tree), "config.json");
  return read_decoder(config);
}

inline std::string error_of(nlohmann::json tree) {
  Result<DecoderSpec> spec = read(std::move(tree));
  return spec.ok() ? "no error" : spec.error().to_string();
}

}  // namespace vernier::testing
