#include <algorithm>

#include "checkpoint/byte_reader.h"
#include "checkpoint/checkpoint_parts.h"
#include "checkpoint/gguf_config.h"
#include "checkpoint/gguf_names.h"
#include "checkpoint/gguf_parts.h"

namespace vernier {

namespace {

StoredTensor stored(const GgufParts& parts, const GgufParts::Entry& entry, const GgufFamily* family) {
  const GgufTensor& tensor = *entry.tensor;
  StoredTensor out;
  out.file_name = std::string(tensor.name);
  out.name = out.file_name;
  if (family != nullptr) out.name = hf_tensor_name(*family, tensor.name).value_or(out.file_name);
  out.type = std::string(tensor.type->name);
  out.codec = tensor.type->codec;
  for (int axis = tensor.rank - 1; axis >= 0; --axis) {
    out.extents.push_back(static_cast<int64_t>(tensor.extents[static_cast<size_t>(axis)]));
  }
  out.bytes = tensor.bytes;
  out.file = parts.files()[entry.part]->file();
  if (tensor.name == kRopeFactorsTensor) out.used_by_configuration = "divisors of rope frequencies";
  return out;
}

Result<std::optional<int32_t>> token_id(const Gguf& file, std::string_view key) {
  TRY_BIND(std::optional<int64_t> id, file.integer(key));
  if (!id || *id == -1) return std::optional<int32_t>();  // some converters write -1 for "none"
  if (*id < 0 || *id > INT32_MAX) {
    return Error{ErrorCode::kCorrupt, fmt::format("metadata key {} is {}, not a token id", key, *id), file.path()};
  }
  return std::optional<int32_t>(static_cast<int32_t>(*id));
}

Result<GenerationDefaults> generation_defaults(const Gguf& file) {
  GenerationDefaults defaults;
  for (const char* key : {"eos", "eot", "eom"}) {
    TRY_BIND(std::optional<int32_t> id, token_id(file, fmt::format("tokenizer.ggml.{}_token_id", key)));
    if (id) defaults.eos_ids.push_back(*id);
  }
  std::sort(defaults.eos_ids.begin(), defaults.eos_ids.end());
  defaults.eos_ids.erase(std::unique(defaults.eos_ids.begin(), defaults.eos_ids.end()), defaults.eos_ids.end());
  TRY_BIND(defaults.bos_id, token_id(file, "tokenizer.ggml.bos_token_id"));
  TRY_BIND(defaults.temperature, file.number("general.sampling.temp"));
  TRY_BIND(defaults.top_p, file.number("general.sampling.top_p"));
  TRY_BIND(defaults.min_p, file.number("general.sampling.min_p"));
  TRY_BIND(defaults.repetition_penalty, file.number("general.sampling.penalty_repeat"));
  TRY_BIND(std::optional<int64_t> top_k, file.integer("general.sampling.top_k"));
  if (top_k && *top_k >= 0 && *top_k <= INT32_MAX) defaults.top_k = static_cast<int32_t>(*top_k);
  return defaults;
}

Result<std::vector<StoredTemplate>> chat_templates(const Gguf& file) {
  constexpr std::string_view kKey = "tokenizer.chat_template";
  std::vector<StoredTemplate> templates;
  for (const auto& [key, value] : file.metadata()) {
    bool plain = key == kKey;
    bool named = key.size() > kKey.size() + 1 && key.substr(0, kKey.size()) == kKey && key[kKey.size()] == '.';
    if (!plain && !named) continue;
    TRY_BIND(std::optional<std::string_view> text, file.text(key));
    std::string name = plain ? "default" : std::string(key.substr(kKey.size() + 1));
    StoredTemplate found{std::move(name), std::string(*text), fmt::format("metadata key {}", printable(key))};
    auto at = plain ? templates.begin() : templates.end();
    if (std::none_of(templates.begin(), templates.end(), [&](const auto& other) { return other.name == found.name; })) {
      templates.insert(at, std::move(found));
    }
  }
  return templates;
}

}  // namespace

Result<CheckpointParts> open_gguf_checkpoint(const std::string& path) {
  TRY_BIND(std::shared_ptr<const GgufParts> parts, GgufParts::open(path));
  const Gguf& first = parts->first();
  CheckpointParts out;
  out.path = path;
  out.config_origin = first.path();
  TRY_BIND(std::optional<std::string_view> architecture, first.text("general.architecture"));
  const GgufFamily* family = gguf_family(architecture.value_or(""));
  out.dialect.format = fmt::format("GGUF v{}", first.version());
  if (family != nullptr) {
    out.dialect.rope_rows_interleaved = family->rope_rows_interleaved;
    out.dialect.norms_hold_one = family->norms_hold_one;
  }
  for (const GgufParts::Entry& entry : parts->tensors()) out.tensors.push_back(stored(*parts, entry, family));
  Result<nlohmann::json> config = gguf_config(*parts);
  if (config.ok()) {
    out.config = *std::move(config);
  } else {
    out.refusal = config.error();
  }
  TRY_BIND(const std::optional<std::string_view> vocabulary, first.text("tokenizer.ggml.model"));
  // Two names for a file that has none.
  const bool has_vocabulary = vocabulary && *vocabulary != "none" && *vocabulary != "no_vocab";
  if (has_vocabulary) out.tokenizer.gguf = parts->first_file();
  TRY_BIND(out.chat_templates, chat_templates(first));
  TRY_BIND(out.generation, generation_defaults(first));
  for (const auto& file : parts->files()) {
    if (file->trailing_bytes() == 0) continue;
    out.warnings.push_back(
        fmt::format("{}: {} bytes after the last tensor are not used", file->path(), file->trailing_bytes()));
  }
  return out;
}

}  // namespace vernier
