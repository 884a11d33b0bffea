#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "checkpoint/byte_reader.h"
#include "checkpoint/expert_stacks.h"
#include "checkpoint/gguf_parts.h"
#include "checkpoint/hf_folder.h"

namespace vernier {

namespace {

namespace fs = std::filesystem;

bool begins_with_gguf(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return false;  // reading a pipe would wait for a writer
  std::array<char, 4> magic{};
  std::ifstream(path, std::ios::binary).read(magic.data(), magic.size());
  return std::string_view(magic.data(), magic.size()) == "GGUF";
}

Error no_model(const std::string& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return not_found("{}: no such file or folder", path);
  if (fs::is_directory(path, ignored)) {
    return not_found("{}: no model there; expected a .gguf file, or config.json with model.safetensors", path);
  }
  return invalid_argument("{}: not a model; give a .gguf file, or the folder that holds config.json", path);
}

}  // namespace

Result<std::unique_ptr<Checkpoint>> Checkpoint::open(const std::string& path) {
  std::error_code ignored;
  bool folder = fs::is_directory(path, ignored);
  Result<CheckpointParts> parts = no_model(path);
  if (folder && fs::exists(fs::path(path) / "config.json", ignored)) {
    parts = open_hf_folder(path);
  } else if (folder ? has_gguf(path) : (fs::path(path).extension() == ".gguf" || begins_with_gguf(path))) {
    parts = open_gguf_checkpoint(path);
  }
  if (!parts.ok()) return std::move(parts).error();
  return make(std::move(parts).value());
}

Result<std::unique_ptr<Checkpoint>> Checkpoint::make(CheckpointParts parts) {
  take_expert_stacks_apart(parts.tensors);
  std::unique_ptr<Checkpoint> checkpoint(new Checkpoint(std::move(parts)));
  TRY_STATUS(checkpoint->index_tensors());
  return checkpoint;
}

Status Checkpoint::index_tensors() {
  for (size_t i = 0; i < parts_.tensors.size(); ++i) {
    if (!names_.emplace(parts_.tensors[i].name, i).second) {
      return corrupt("{}: tensor {} stands there twice", parts_.path, printable(parts_.tensors[i].name));
    }
  }
  return {};
}

Result<Config> Checkpoint::config() const {
  if (parts_.refusal) return *parts_.refusal;
  return Config(parts_.config, parts_.config_origin);
}

const StoredTemplate* Checkpoint::chat_template(std::string_view name) const {
  for (const StoredTemplate& candidate : parts_.chat_templates) {
    if (candidate.name == name) return &candidate;
  }
  return nullptr;
}

std::vector<std::string> Checkpoint::files() const {
  std::set<std::string> paths;
  for (const StoredTensor& tensor : parts_.tensors) paths.insert(tensor.file->path());
  if (parts_.tokenizer.gguf != nullptr) paths.insert(parts_.tokenizer.gguf->path());
  return {paths.begin(), paths.end()};
}

const StoredTensor* Checkpoint::find(std::string_view name) const {
  auto found = names_.find(name);
  return found == names_.end() ? nullptr : &parts_.tensors[found->second];
}

bool Checkpoint::head_equals_embedding() const {
  const StoredTensor* head = find("lm_head.weight");
  const StoredTensor* embedding = find("model.embed_tokens.weight");
  if (embedding == nullptr) embedding = find("model.language_model.embed_tokens.weight");
  if (embedding == nullptr) embedding = find("language_model.model.embed_tokens.weight");
  if (head == nullptr || embedding == nullptr) return false;
  return head->type == embedding->type && head->extents == embedding->extents &&
         std::equal(head->bytes.begin(), head->bytes.end(), embedding->bytes.begin(), embedding->bytes.end());
}

Result<TokenizerSource> find_tokenizer(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    TRY_BIND(TokenizerSource source, folder_tokenizer(path));
    if (!source.tokenizer_json.empty()) return source;
    if (!has_gguf(path)) return not_found("{}: no tokenizer.json and no .gguf file there", path);
  } else if (fs::path(path).extension() != ".gguf" && !begins_with_gguf(path)) {
    if (!fs::exists(path, ignored)) return not_found("{}: no such file or folder", path);
    TRY_BIND(TokenizerSource source, folder_tokenizer(fs::path(path).parent_path().string()));
    source.tokenizer_json = path;
    return source;
  }
  TRY_BIND(std::shared_ptr<const GgufParts> parts, GgufParts::open(path));
  TokenizerSource source;
  source.gguf = parts->first_file();
  return source;
}

bool looks_like_scale(std::string_view tensor_name) {
  size_t dot = tensor_name.rfind('.');
  std::string last(dot == std::string_view::npos ? tensor_name : tensor_name.substr(dot + 1));
  std::transform(last.begin(), last.end(), last.begin(), [](unsigned char c) { return std::tolower(c); });
  constexpr std::array<std::string_view, 9> kParts = {"scale",  "scaling", "zero_point", "zeros",      "amax",
                                                      "absmax", "g_idx",   "quant_map",  "quant_state"};
  // bitsandbytes puts its state under the weight: "weight.quant_state.bitsandbytes__nf4".
  return tensor_name.find(".quant_state.") != std::string_view::npos ||
         std::any_of(kParts.begin(), kParts.end(),
                     [&](std::string_view part) { return last.find(part) != std::string::npos; });
}

bool belongs_to_other_modality(std::string_view tensor_name) {
  constexpr std::array<std::string_view, 7> kModules = {"vision_tower",       "vision_model", "multi_modal_projector",
                                                        "audio_tower",        "visual",       "embed_vision",
                                                        "vision_embed_tokens"};
  size_t begin = 0;
  while (begin <= tensor_name.size()) {
    size_t end = std::min(tensor_name.find('.', begin), tensor_name.size());
    std::string_view module = tensor_name.substr(begin, end - begin);
    if (std::find(kModules.begin(), kModules.end(), module) != kModules.end()) return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace vernier
