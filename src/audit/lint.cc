#include "audit/lint.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "audit/lint_parts.h"
#include "checkpoint/gguf_parts.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/quant_dialects.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/strict_json.h"

namespace vernier {

namespace {

namespace fs = std::filesystem;

bool begins_with(const std::string& path, std::string_view magic) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return false;
  std::string found(magic.size(), '\0');
  std::ifstream(path, std::ios::binary).read(found.data(), static_cast<std::streamsize>(found.size()));
  return found == magic;
}

/// Weights without a configuration: their bytes alone can be judged.
void lint_weight_file(LintReport& report) {
  Result<std::shared_ptr<const Safetensors>> file = Safetensors::open(report.path);
  if (!file.ok()) return report.add(lint_checks::kFile, file.error());
  CheckpointParts parts;
  parts.path = report.path;
  if (Status added = add_safetensors_file(report.path, parts); !added.ok()) {
    return report.add(lint_checks::kFile, added.error());
  }
  Result<std::unique_ptr<Checkpoint>> checkpoint = Checkpoint::make(std::move(parts));
  if (!checkpoint.ok()) return report.add(lint_checks::kFile, checkpoint.error());
  report.format = "safetensors";
  for (const StoredTensor& tensor : (*checkpoint)->tensors()) lint_tensor(tensor, report);
  lint_lone_codes(**checkpoint, report);
}

void lint_template_file(LintReport& report) {
  std::ifstream in(report.path, std::ios::binary);
  if (!in) return report.add(lint_checks::kFile, report.path, "", "cannot be read");
  std::ostringstream text;
  text << in.rdbuf();
  report.format = "chat template";
  lint_templates({{"default", text.str(), report.path}}, report.path, report);
}

void lint_tokenizer_file(const LintOptions& options, LintReport& report) {
  TokenizerSource source;
  source.tokenizer_json = report.path;
  Result<Tokenizer> tokenizer = options.load_tokenizer(source);
  if (!tokenizer.ok()) report.add(lint_checks::kTokenizer, tokenizer.error());
}

/// By what a file's name says it is; any other JSON must only be whole.
void lint_json_file(const LintOptions& options, LintReport& report) {
  const fs::path path(report.path);
  Result<nlohmann::json> tree = read_strict_json(report.path);
  if (!tree.ok()) return report.add(lint_checks::kFile, tree.error());
  report.format = "JSON";
  if (is_scale_file(*tree)) return lint_scale_file(report.path, nullptr, report);
  if (path.filename() == "tokenizer.json") return lint_tokenizer_file(options, report);
  if (path.filename() != "config.json" && path.filename() != "hf_quant_config.json") return;
  if (!tree->is_object()) return report.add(lint_checks::kFile, report.path, "", "is no JSON object");
  const bool is_config = path.filename() == "config.json";
  const std::string folder = path.parent_path().empty() ? "." : path.parent_path().string();
  Result<std::vector<QuantSource>> sources = find_quant_sources(folder, is_config ? *tree : nlohmann::json::object());
  if (!sources.ok()) return report.add(lint_checks::kQuantisation, sources.error());
  if (Result<QuantPlan> plan = read_quant_plan(*sources, {}); !plan.ok()) {
    report.add(lint_checks::kQuantisation, plan.error());
  }
}

void lint_folder(const LintOptions& options, LintReport& report) {
  std::error_code ignored;
  const fs::path folder(report.path);
  if (fs::exists(folder / "config.json", ignored)) return lint_hf_folder(options, report);
  if (has_gguf(report.path)) return lint_gguf(options, report);
  report.add(lint_checks::kFile, report.path, "",
             "holds no model; expected a .gguf file, or config.json with model.safetensors");
}

}  // namespace

void lint_single_file(const LintOptions& options, LintReport& report) {
  const std::string ending = fs::path(report.path).extension().string();
  if (ending == ".gguf" || begins_with(report.path, "GGUF")) return lint_gguf(options, report);
  if (ending == ".safetensors") return lint_weight_file(report);
  if (ending == ".json") return lint_json_file(options, report);
  if (ending == ".jinja") return lint_template_file(report);
  report.add(lint_checks::kFile, report.path, "",
             "is no file of a checkpoint; expected .gguf, .safetensors, .json, .jinja, or a folder with config.json");
}

LintReport lint(const std::string& path, const LintOptions& options) {
  LintReport report;
  report.path = path;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    report.add(lint_checks::kFile, path, "", "there is no such file or folder");
  } else if (fs::is_directory(path, ignored)) {
    lint_folder(options, report);
  } else {
    lint_single_file(options, report);
  }
  return report;
}

}  // namespace vernier
