#include "audit/lint_report.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "checkpoint/byte_reader.h"

namespace vernier {

namespace {

/// "2 errors, 1 warning"; "nothing to report".
std::string count_findings(const LintReport& report) {
  std::string text;
  for (LintLevel level : {LintLevel::kError, LintLevel::kWarning, LintLevel::kNote}) {
    const int64_t found = report.count(level);
    if (found == 0) continue;
    text += fmt::format("{}{} {}{}", text.empty() ? "" : ", ", found, name(level), found == 1 ? "" : "s");
  }
  return text.empty() ? "nothing to report" : text;
}

std::string below(const std::string& path, const std::string& file) {
  if (!file.starts_with(path)) return file;
  std::string rest = file.substr(path.size());
  if (rest.empty()) return std::filesystem::path(path).filename().string();
  // "m.gguf" is no place inside "m".
  if (rest.front() != '/' && !path.ends_with('/')) return file;
  return rest.substr(rest.find_first_not_of('/'));
}

}  // namespace

std::string_view name(LintLevel level) {
  switch (level) {
    case LintLevel::kNote:
      return "note";
    case LintLevel::kWarning:
      return "warning";
    case LintLevel::kError:
      return "error";
  }
  return "?";
}

void LintReport::add(const LintCheck& check, const std::string& file, const std::string& tensor, std::string message) {
  LintFinding finding{check, below(path, file), printable(tensor), std::move(message)};
  const bool known = std::any_of(findings.begin(), findings.end(), [&](const LintFinding& other) {
    return other.file == finding.file && other.tensor == finding.tensor && other.message == finding.message;
  });
  if (!known) findings.push_back(std::move(finding));
}

void LintReport::add(const LintCheck& check, const Error& error) {
  std::string message = error.message;
  std::string file = error.where;
  std::string tensor;
  // Errors about a file or folder that is not there begin with its path.
  if (file.empty() && message.starts_with(path)) {
    const size_t end = message.find(": ");
    if (end != std::string::npos) {
      file = message.substr(0, end);
      message = message.substr(end + 2);
    }
  }
  if (file.empty()) file = path;
  constexpr std::string_view kTensor = "tensor ";
  if (message.starts_with(kTensor)) {
    // "tensor NAME: ...", "tensor NAME is missing, ...".
    const size_t colon = message.find(": ");
    const size_t end = std::min(colon, message.find(" is missing"));
    if (end != std::string::npos) {
      tensor = message.substr(kTensor.size(), end - kTensor.size());
      message = message.substr(end + (end == colon ? 2 : 1));
    }
  }
  add(check, file, tensor, std::move(message));
}

int64_t LintReport::count(LintLevel level) const {
  return std::count_if(findings.begin(), findings.end(),
                       [&](const LintFinding& finding) { return finding.check.level == level; });
}

std::string LintReport::to_string(int64_t most) const {
  std::string text = fmt::format("{}: {}\n", path, count_findings(*this));
  std::map<std::string_view, std::pair<int64_t, const LintFinding*>> shown;  // by kind
  for (LintLevel level : {LintLevel::kError, LintLevel::kWarning, LintLevel::kNote}) {
    for (const LintFinding& finding : findings) {
      if (finding.check.level != level) continue;
      auto& [times, last] = shown[finding.check.id];
      ++times;
      last = &finding;
      if (most > 0 && times > most) continue;
      std::string place = finding.file;
      if (!finding.tensor.empty()) place += (place.empty() ? "" : ": ") + finding.tensor;
      text += fmt::format("  {:<8} {:<20} {}\n", name(level), finding.check.id, place);
      text += fmt::format("           {}\n           -> {}\n", finding.message, finding.check.advice);
    }
  }
  for (const auto& [id, entry] : shown) {
    if (most == 0 || entry.first <= most) continue;
    text += fmt::format("  and {} more of kind {}; --all lists them\n", entry.first - most, id);
  }
  return text;
}

nlohmann::json LintReport::to_json() const {
  nlohmann::json list = nlohmann::json::array();
  for (const LintFinding& finding : findings) {
    list.push_back({{"level", name(finding.check.level)},
                    {"check", finding.check.id},
                    {"file", finding.file},
                    {"tensor", finding.tensor},
                    {"message", finding.message},
                    {"advice", finding.check.advice}});
  }
  return {{"path", path},
          {"format", format},
          {"errors", count(LintLevel::kError)},
          {"warnings", count(LintLevel::kWarning)},
          {"findings", std::move(list)}};
}

}  // namespace vernier
