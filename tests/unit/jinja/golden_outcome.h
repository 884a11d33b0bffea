#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "text/jinja_template.h"

namespace vernier {

inline const CivilTime kGoldenNow{2025, 7, 9, 14, 5, 6, 0};

inline std::vector<nlohmann::ordered_json> read_json_lines(const std::string& name) {
  std::ifstream file(std::string(VERNIER_TEST_DATA) + "/templates/" + name, std::ios::binary);
  std::vector<nlohmann::ordered_json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::ordered_json::parse(line));
  return lines;
}

/// "text: ...", "raised: ..." or "error", comparable with expected_outcome.
inline std::string outcome_of(const Result<Rendered>& result) {
  if (result.ok()) return "text: " + result->text;
  if (result.error().where == kRaisedByTemplate) return "raised: " + result.error().message;
  return "error";
}

inline std::string expected_outcome(const nlohmann::ordered_json& golden) {
  if (golden.contains("text")) return "text: " + golden["text"].get<std::string>();
  if (golden.contains("raised")) return "raised: " + golden["raised"].get<std::string>();
  return "error";
}

}  // namespace vernier
