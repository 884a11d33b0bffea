#include <algorithm>
#include <filesystem>
#include <optional>

#include "audit/lint_parts.h"
#include "checkpoint/gguf_parts.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/quant_dialects.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/strict_json.h"
#include "models/registry.h"

namespace vernier {

namespace {

namespace fs = std::filesystem;

/// A finding of each warning that the loader added since `from`.
void take_warnings(const LintCheck& check, const std::string& file, const CheckpointParts& parts, size_t from,
                   LintReport& report) {
  for (size_t i = from; i < parts.warnings.size(); ++i) {
    std::string message = parts.warnings[i];
    if (message.starts_with(file + ": ")) message = message.substr(file.size() + 2);
    report.add(check, file, "", std::move(message));
  }
}

/// A file whose name any program would load: left by another export, it may be taken for the model.
bool is_named_like_a_model(const std::vector<std::string>& warnings, size_t from) {
  return std::any_of(warnings.begin() + static_cast<std::ptrdiff_t>(from), warnings.end(),
                     [](const std::string& warning) { return warning.find(": model") != std::string::npos; });
}

std::vector<std::string> weight_files(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// Fills the tensors of all files that can be read; false where some cannot.
bool read_weights(CheckpointParts& parts, LintReport& report) {
  const size_t warned = parts.warnings.size();
  const Status all = add_safetensors(parts.path, parts);
  const bool stray = is_named_like_a_model(parts.warnings, warned);
  take_warnings(stray ? lint_checks::kStray : lint_checks::kBeside, parts.path, parts, warned, report);
  if (all.ok()) return true;
  // Each file that breaks its format, and then what is wrong between them.
  const bool file_is_at_fault = all.error().where.ends_with(".safetensors");
  report.add(file_is_at_fault ? lint_checks::kFile : lint_checks::kShards, all.error());
  parts.tensors.clear();
  for (const std::string& file : weight_files(parts.path)) {
    if (Status read = add_safetensors_file(file, parts); !read.ok()) report.add(lint_checks::kFile, read.error());
  }
  return false;
}

bool read_plan(CheckpointParts& parts, LintReport& report) {
  const size_t warned = parts.warnings.size();
  const Status read = add_quantisation(parts.path, parts);
  // A tied head has no tensor, and every tool lists it all the same.
  std::erase_if(parts.warnings, [](const std::string& warning) {
    return warning.find(" names lm_head, and no module") != std::string::npos;
  });
  take_warnings(lint_checks::kExclusion, parts.config_origin, parts, warned, report);
  if (read.ok()) return true;
  report.add(lint_checks::kQuantisation, read.error());
  return false;
}

void read_text_files(CheckpointParts& parts, LintReport& report) {
  Result<TokenizerSource> tokenizer = folder_tokenizer(parts.path);
  if (tokenizer.ok()) {
    parts.tokenizer = *std::move(tokenizer);
  } else {
    report.add(lint_checks::kFile, tokenizer.error());
  }
  const size_t warned = parts.warnings.size();
  if (Status status = add_chat_templates(parts.path, parts); !status.ok()) {
    report.add(lint_checks::kTemplate, status.error());
  }
  take_warnings(lint_checks::kTemplates, parts.path, parts, warned, report);
  if (Status status = add_generation_defaults(parts.path, parts); !status.ok()) {
    report.add(lint_checks::kSpecialId, status.error());
  }
}

std::optional<DecoderSpec> spec_of(Config& config) {
  Result<DecoderSpec> spec = read_decoder(config);
  return spec.ok() ? std::optional(*std::move(spec)) : std::nullopt;
}

}  // namespace

void lint_hf_folder(const LintOptions& options, LintReport& report) {
  CheckpointParts parts;
  parts.path = report.path;
  parts.dialect.format = report.format = "safetensors";
  parts.config_origin = (fs::path(report.path) / "config.json").string();
  Result<nlohmann::json> config = read_strict_json(parts.config_origin);
  const bool has_config = config.ok() && config->is_object();
  if (!config.ok()) {
    report.add(lint_checks::kFile, config.error());
  } else if (!has_config) {
    report.add(lint_checks::kFile, parts.config_origin, "", "is no JSON object");
  }
  parts.config = has_config ? *std::move(config) : nlohmann::json::object();
  read_text_files(parts, report);
  parts.embedding = embedding_defaults(parts.path);
  LintDepth depth;
  depth.weights_complete = read_weights(parts, report);
  depth.plan_known = read_plan(parts, report);
  if (!has_config) parts.refusal = Error{ErrorCode::kCorrupt, "its configuration cannot be read", parts.config_origin};
  Result<std::unique_ptr<Checkpoint>> checkpoint = Checkpoint::make(std::move(parts));
  if (!checkpoint.ok()) return report.add(lint_checks::kShards, checkpoint.error());
  lint_checkpoint(**checkpoint, depth, options, report);
  Result<Config> known = (*checkpoint)->config();
  const std::optional<DecoderSpec> spec = known.ok() ? spec_of(*known) : std::nullopt;
  lint_scale_files(report.path, spec ? &*spec : nullptr, report);
}

void lint_gguf(const LintOptions& options, LintReport& report) {
  Result<std::shared_ptr<const GgufParts>> files = GgufParts::open(report.path);
  if (!files.ok()) {
    const bool of_one_file = !fs::is_directory(report.path) && !Gguf::open(report.path).ok();
    return report.add(of_one_file ? lint_checks::kFile : lint_checks::kShards, files.error());
  }
  report.format = fmt::format("GGUF v{}", (*files)->first().version());
  Result<CheckpointParts> parts = open_gguf_checkpoint(report.path);
  if (!parts.ok()) return report.add(lint_checks::kConfig, parts.error());
  take_warnings(lint_checks::kTrailing, parts->path, *parts, 0, report);
  LintDepth depth;
  if (parts->refusal) {
    report.add(lint_checks::kConfig, *parts->refusal);
    depth.plan_known = false;
  }
  Result<std::unique_ptr<Checkpoint>> checkpoint = Checkpoint::make(*std::move(parts));
  if (!checkpoint.ok()) return report.add(lint_checks::kFile, checkpoint.error());
  lint_checkpoint(**checkpoint, depth, options, report);
}

}  // namespace vernier
