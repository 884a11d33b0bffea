#include <algorithm>
#include <filesystem>

#include "app/command_line.h"
#include "app/commands.h"
#include "app/known_models.h"

namespace vernier {

const std::vector<KnownModel>& known_models() {
  static const std::vector<KnownModel> models = {
      {"smollm2-135m", "SmolLM2 135M Instruct, Q4_1, 98 MB"},
      {"gemma3-270m", "Gemma 3 270M, Q4_K_M, 253 MB"},
      {"all-minilm-l6-v2", "all-MiniLM-L6-v2, an encoder for embeddings, F32, 91 MB"},
  };
  return models;
}

Result<std::string> find_model(const std::string& given) {
  if (given.empty()) return invalid_argument("MODEL is empty; expected a file, a folder or a short name");
  std::error_code ignored;
  if (std::filesystem::exists(given, ignored)) return given;
  const std::filesystem::path folder = global_options().home / "models";
  const bool is_name = given.find('/') == std::string::npos;
  if (is_name) {
    // A short name is a file or a folder of home/models, with or without .gguf.
    for (const std::filesystem::path& path : {folder / (given + ".gguf"), folder / given}) {
      if (std::filesystem::exists(path, ignored)) return path.string();
    }
  }
  std::vector<std::string> names;
  for (const KnownModel& model : known_models()) {
    if (model.name == given) {
      return not_found("{} ({}) is not in {} yet; run tools/fetch_model {}", given, model.description, folder.string(),
                       given);
    }
    names.emplace_back(model.name);
  }
  const auto close = nearest(given, names);
  if (close) return not_found("no model {}; did you mean {}?", given, *close);
  return not_found("{} is no file, no folder and no short name; the short names are {}", given, fmt::join(names, ", "));
}

}  // namespace vernier
