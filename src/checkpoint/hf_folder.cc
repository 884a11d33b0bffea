#include "checkpoint/hf_folder.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <unordered_set>

#include "checkpoint/byte_reader.h"
#include "checkpoint/gpt_oss_files.h"
#include "checkpoint/quant_dialects.h"
#include "checkpoint/quant_keys.h"
#include "checkpoint/strict_json.h"

namespace vernier {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr uintmax_t kLongestTemplateBytes = 16 << 20;

/// Null where the file is not there.
Result<Json> optional_json(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return Json();
  TRY_BIND(Json tree, read_strict_json(path.string()));
  if (!tree.is_object()) return Error{ErrorCode::kCorrupt, "not a JSON object", path.string()};
  return tree;
}

Result<std::string> read_template(const fs::path& path) {
  std::error_code failure;
  uintmax_t size = fs::file_size(path, failure);
  std::ifstream in(path, std::ios::binary);
  if (failure || !in) return not_found("cannot read {}", path.string());
  if (size > kLongestTemplateBytes) return corrupt("{}: {} bytes are too many for a template", path.string(), size);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

void add_template(StoredTemplate found, CheckpointParts& parts) {
  for (const StoredTemplate& earlier : parts.chat_templates) {
    if (earlier.name != found.name) continue;
    if (earlier.text != found.text) {
      parts.warnings.push_back(fmt::format("chat template \"{}\" is taken from {}; {} has another one",
                                           printable(found.name), earlier.origin, found.origin));
    }
    return;
  }
  parts.chat_templates.push_back(std::move(found));
}

/// "chat_template": one text, or a list of {"name", "template"}.
Status add_json_templates(const Json& tree, const std::string& origin, CheckpointParts& parts) {
  auto value = tree.find("chat_template");
  if (value == tree.end() || value->is_null()) return {};
  if (value->is_string()) {
    add_template({"default", value->get<std::string>(), origin}, parts);
    return {};
  }
  Error wrong{ErrorCode::kCorrupt, "\"chat_template\" must be a text or a list of {\"name\", \"template\"}", origin};
  if (!value->is_array()) return wrong;
  for (const Json& item : *value) {
    if (!item.is_object() || !item.value("name", Json()).is_string() || !item.value("template", Json()).is_string()) {
      return wrong;
    }
    add_template({item["name"].get<std::string>(), item["template"].get<std::string>(), origin}, parts);
  }
  return {};
}

Status add_ids(const Json& value, const std::string& origin, std::set<int32_t>& ids) {
  if (value.is_null()) return {};
  for (const Json& item : value.is_array() ? value : Json::array({value})) {
    if (!item.is_number_integer() || item.get<int64_t>() < 0 || item.get<int64_t>() > INT32_MAX) {
      return Error{ErrorCode::kCorrupt,
                   fmt::format("\"eos_token_id\" holds {}, not a token id", printable(item.dump(-1, ' ', true))),
                   origin};
    }
    ids.insert(static_cast<int32_t>(item.get<int64_t>()));
  }
  return {};
}

std::optional<double> number(const Json& tree, const char* key) {
  auto value = tree.find(key);
  if (value == tree.end() || !value->is_number()) return std::nullopt;
  return value->get<double>();
}

/// Names of all modules that have tensors, in file order.
std::vector<std::string> module_names(const std::vector<StoredTensor>& tensors) {
  std::vector<std::string> names;
  std::unordered_set<std::string_view> seen;
  for (const StoredTensor& tensor : tensors) {
    const size_t dot = tensor.name.rfind('.');
    if (dot == std::string::npos) continue;
    std::string_view name = std::string_view(tensor.name).substr(0, dot);
    if (seen.insert(name).second) names.emplace_back(name);
  }
  return names;
}

Status at_config(Status status, const CheckpointParts& parts) {
  if (status.ok()) return {};
  return Error{status.error().code, status.error().message, parts.config_origin};
}

void remove_quantisation_keys(Json& config) {
  for (const char* key : {"quantization_config", "quantization", "compression_config"}) {
    config.erase(key);
    auto nested = config.find("text_config");
    if (nested != config.end() && nested->is_object()) nested->erase(key);
  }
}

/// "expert_dtype" beside the quantisation of the other layers: FP4 experts in an FP8 checkpoint, as DeepSeek-V4 has
/// them.
Status add_expert_type(CheckpointParts& parts) {
  auto found = parts.config.find("expert_dtype");
  if (found == parts.config.end() || found->is_null()) return {};
  const std::string text = found->is_string() ? lower_case(found->get<std::string>()) : found->dump();
  if (text != "fp4" && text != "fp8") {
    return Error{ErrorCode::kUnsupported, fmt::format("\"expert_dtype\" is {}, expected fp4 or fp8", printable(text)),
                 parts.config_origin};
  }
  parts.config.erase(found);
  if (text == "fp8") return {};
  WeightScheme experts;
  experts.form = WeightForm::kMxfp4;
  experts.algorithm = "expert_dtype fp4";
  parts.plan.rules.push_back({"expert_dtype", experts});
  if (parts.plan.empty()) parts.plan.origin = "expert_dtype";
  TRY_BIND(ModulePattern pattern, ModulePattern::make("mlp.experts"));
  parts.plan.patterns.emplace(parts.plan.patterns.begin(), std::move(pattern), parts.plan.rules.size() - 1);
  return {};
}

}  // namespace

Status add_quantisation(const std::string& folder, CheckpointParts& parts) {
  TRY_BIND(std::vector<QuantSource> sources, find_quant_sources(folder, parts.config));
  remove_quantisation_keys(parts.config);
  const std::vector<std::string> modules = module_names(parts.tensors);
  TRY_BIND(parts.plan, read_quant_plan(sources, modules));
  TRY_STATUS(add_expert_type(parts));
  for (const std::string& entry : unmatched_entries(parts.plan, modules)) {
    parts.warnings.push_back(
        fmt::format("{} names {}, and no module is called so", parts.plan.origin, printable(entry)));
  }
  return {};
}

Result<TokenizerSource> folder_tokenizer(const std::string& folder) {
  fs::path base = folder.empty() ? fs::path(".") : fs::path(folder);
  TokenizerSource source;
  std::error_code ignored;
  if (fs::exists(base / "tokenizer.json", ignored)) source.tokenizer_json = (base / "tokenizer.json").string();
  TRY_BIND(source.tokenizer_config, optional_json(base / "tokenizer_config.json"));
  return source;
}

Status add_chat_templates(const std::string& folder, CheckpointParts& parts) {
  fs::path base(folder);
  std::error_code ignored;
  if (fs::exists(base / "chat_template.jinja", ignored)) {
    TRY_BIND(std::string text, read_template(base / "chat_template.jinja"));
    add_template({"default", std::move(text), "chat_template.jinja"}, parts);
  }
  std::set<fs::path> named;
  for (const auto& entry : fs::directory_iterator(base / "additional_chat_templates", ignored)) {
    if (entry.path().extension() == ".jinja") named.insert(entry.path());
  }
  for (const fs::path& path : named) {
    TRY_BIND(std::string text, read_template(path));
    add_template({path.stem().string(), std::move(text), "additional_chat_templates/" + path.filename().string()},
                 parts);
  }
  TRY_BIND(Json processor, optional_json(base / "chat_template.json"));
  if (processor.is_object()) TRY_STATUS(add_json_templates(processor, "chat_template.json", parts));
  const Json& tokenizer = parts.tokenizer.tokenizer_config;
  if (tokenizer.is_object()) TRY_STATUS(add_json_templates(tokenizer, "tokenizer_config.json", parts));
  return {};
}

Status add_generation_defaults(const std::string& folder, CheckpointParts& parts) {
  TRY_BIND(Json generation, optional_json(fs::path(folder) / "generation_config.json"));
  GenerationDefaults& out = parts.generation;
  std::set<int32_t> ids;
  const Json text_config = parts.config.value("text_config", Json());
  for (const Json& level : {parts.config, text_config, generation}) {
    if (level.is_object()) TRY_STATUS(add_ids(level.value("eos_token_id", Json()), parts.config_origin, ids));
  }
  out.eos_ids.assign(ids.begin(), ids.end());
  for (const Json& level : {generation, parts.config, text_config}) {
    if (!level.is_object() || out.bos_id) continue;
    const Json bos = level.value("bos_token_id", Json());
    if (bos.is_number_integer() && bos.get<int64_t>() >= 0 && bos.get<int64_t>() <= INT32_MAX) {
      out.bos_id = static_cast<int32_t>(bos.get<int64_t>());
    }
  }
  const Json& tokenizer = parts.tokenizer.tokenizer_config;
  if (tokenizer.is_object()) {
    Json token = tokenizer.value("eos_token", Json());
    if (token.is_object()) token = token.value("content", Json());
    if (token.is_string()) out.eos_tokens.push_back(token.get<std::string>());
  }
  if (!generation.is_object()) return {};
  out.temperature = number(generation, "temperature");
  out.top_p = number(generation, "top_p");
  out.min_p = number(generation, "min_p");
  out.repetition_penalty = number(generation, "repetition_penalty");
  const Json top_k = generation.value("top_k", Json());
  if (top_k.is_number_integer() && top_k.get<int64_t>() >= 0 && top_k.get<int64_t>() <= INT32_MAX) {
    out.top_k = static_cast<int32_t>(top_k.get<int64_t>());
  }
  return {};
}

Result<CheckpointParts> open_hf_folder(const std::string& folder) {
  CheckpointParts parts;
  parts.path = folder;
  parts.dialect.format = "safetensors";
  parts.config_origin = (fs::path(folder) / "config.json").string();
  TRY_BIND(parts.config, optional_json(parts.config_origin));
  if (!parts.config.is_object()) return not_found("{} is missing", parts.config_origin);
  const bool original = is_original_gpt_oss(parts.config);
  if (original) TRY_STATUS(at_config(respell_gpt_oss_config(parts.config), parts));
  // OpenAI's files lie in a folder of the one that has the tokenizer.
  const bool beside = !original || fs::exists(fs::path(folder) / "tokenizer.json");
  const std::string texts = beside ? folder : (fs::path(folder) / "..").string();
  TRY_BIND(parts.tokenizer, folder_tokenizer(texts));
  TRY_STATUS(add_chat_templates(texts, parts));
  TRY_STATUS(add_generation_defaults(texts, parts));
  parts.embedding = embedding_defaults(folder);
  TRY_STATUS(add_safetensors(folder, parts));
  if (original) TRY_STATUS(at_config(respell_gpt_oss_tensors(parts.config, parts.tensors), parts));
  if (Status status = add_quantisation(folder, parts); !status.ok()) parts.refusal = status.error();
  return parts;
}

}  // namespace vernier
