#pragma once

#include <optional>
#include <string>

namespace vernier::testing {

/// The path of a file below the fetched models' folder ($VERNIER_HOME/models, else ~/.cache/vernier/models), where
/// `tools/fetch_model` puts them; nullopt where it is absent. A test then skips:
///   auto path = model_file("smollm2-135m.gguf"); if (!path) GTEST_SKIP() << missing_model("smollm2-135m");
std::optional<std::string> model_file(const std::string& name);

/// "the model smollm2-135m is absent: run tools/fetch_model smollm2-135m"
std::string missing_model(const std::string& short_name);

/// The folder of fetched vocabularies and templates (VERNIER_VOCABULARIES, set by `./test --vocabularies`).
std::optional<std::string> vocabularies_folder();

}  // namespace vernier::testing
