#include "api/template_tokens.h"

#include <nlohmann/json.hpp>

namespace vernier {

std::vector<std::pair<std::string, std::string>> template_tokens(const Checkpoint& checkpoint,
                                                                 const Tokenizer& tokenizer) {
  std::vector<std::pair<std::string, std::string>> tokens;
  const TokenizerSource& source = checkpoint.tokenizer();
  if (source.tokenizer_config.is_object()) {
    for (const auto& [key, value] : source.tokenizer_config.items()) {
      if (!key.ends_with("_token")) continue;
      const nlohmann::json& text = value.is_object() && value.contains("content") ? value["content"] : value;
      if (text.is_string()) tokens.emplace_back(key, text.get<std::string>());
    }
  }
  if (source.gguf != nullptr) {
    for (const char* kind : {"bos", "eos", "pad", "unknown"}) {
      const GgufValue* id = source.gguf->find(fmt::format("tokenizer.ggml.{}_token_id", kind));
      const auto number = id != nullptr ? id->as_integer() : std::nullopt;
      if (!number) continue;
      const auto text = tokenizer.token_text(static_cast<int32_t>(*number));
      const std::string name = std::string_view(kind) == "unknown" ? "unk" : kind;
      if (text) tokens.emplace_back(name + "_token", *text);
    }
  }
  return tokens;
}

}  // namespace vernier
