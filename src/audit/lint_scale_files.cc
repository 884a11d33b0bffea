#include <algorithm>
#include <filesystem>

#include "audit/lint_parts.h"
#include "checkpoint/cache_scale_file.h"
#include "checkpoint/strict_json.h"
#include "engine/cache_plan.h"

namespace vernier {

bool is_scale_file(const nlohmann::json& tree) {
  return tree.is_object() && (tree.contains("kv_cache") || tree.contains("scaling_factor"));
}

void lint_scale_file(const std::string& path, const DecoderSpec* spec, LintReport& report) {
  const Result<CacheScaleFile> file = CacheScaleFile::read(path);
  if (!file.ok()) return report.add(lint_checks::kCacheScale, file.error());
  if (spec == nullptr) return;
  CacheOptions options;
  options.stored = file->stored;
  options.scales_file = path;
  Result<CachePlan> plan = plan_cache(*spec, options, {});
  if (!plan.ok()) report.add(lint_checks::kCacheScale, path, "", plan.error().message);
}

void lint_scale_files(const std::string& folder, const DecoderSpec* spec, LintReport& report) {
  namespace fs = std::filesystem;
  std::vector<std::string> files;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const fs::path& path = entry.path();
    const bool has_another_use = path.filename() == "config.json" || path.filename() == "tokenizer.json";
    if (path.extension() == ".json" && !has_another_use) files.push_back(path.string());
  }
  std::ranges::sort(files);
  for (const std::string& path : files) {
    const Result<nlohmann::json> tree = read_strict_json(path);
    if (tree.ok() ? is_scale_file(*tree) : path.find("scale") != std::string::npos) lint_scale_file(path, spec, report);
  }
}

}  // namespace vernier
