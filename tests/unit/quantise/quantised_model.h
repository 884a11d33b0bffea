#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "audit/model_writer.h"
#include "audit/quantise_checkpoint.h"

namespace vernier::testing {

inline const std::string kData = VERNIER_TEST_DATA "/models/";

/// Every matrix of a model as it is bound, in bits.
inline std::map<std::string, std::vector<float>> numbers_of(const std::string& path, const QuantiseRequest* request) {
  auto checkpoint = Checkpoint::open(path);
  CHECK(checkpoint.ok(), "{}", checkpoint.error().to_string());
  std::optional<WeightQuantiser> quantiser;
  if (request != nullptr) quantiser = WeightQuantiser::make(**checkpoint, *request).value();
  std::map<std::string, std::vector<float>> all;
  auto report = stream_weights(
      **checkpoint,
      [&](std::span<const WeightPart> parts, PackUse use, std::vector<QTensor>& segments) -> Status {
        if (quantiser) TRY_STATUS(quantiser->apply(parts, use, segments));
        for (size_t i = 0; i < parts.size(); ++i) all[parts[i].name] = segments[i].decode();
        return {};
      },
      nullptr);
  CHECK(report.ok(), "{}", report.error().to_string());
  EXPECT_TRUE(report->unused().empty()) << path;
  return all;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

inline QuantiseJob job_for(const std::string& format, const std::string& out) {
  QuantiseJob job;
  job.request.target = find_quant_target("--to", format).value();
  job.out = out;
  job.rest = CodecId::kF32;
  return job;
}

inline Result<QuantiseSummary> quantise_model(const std::string& source, const QuantiseJob& job) {
  TRY_BIND(auto checkpoint, Checkpoint::open(source));
  return quantise_checkpoint(*checkpoint, job);
}

inline std::string error_of(const Result<QuantiseSummary>& result) {
  return result.ok() ? "no error" : result.error().to_string();
}

/// What Mixtral calls its experts, as GGUF files have them called.
inline std::map<std::string, std::vector<float>> with_usual_names(std::map<std::string, std::vector<float>> all) {
  std::map<std::string, std::vector<float>> renamed;
  for (auto& [key, values] : all) {
    std::string name = key;
    for (const auto& [from, to] : {std::pair(".block_sparse_moe.", ".mlp."), std::pair(".w1", ".gate_proj"),
                                   std::pair(".w2", ".down_proj"), std::pair(".w3", ".up_proj")}) {
      if (const size_t at = name.find(from); at != std::string::npos) name.replace(at, std::strlen(from), to);
    }
    renamed[name] = std::move(values);
  }
  return renamed;
}

/// Experts that were stacked with gate and up in one matrix are written with two: as one again.
inline std::map<std::string, std::vector<float>> with_halves_joined(std::map<std::string, std::vector<float>> all) {
  for (auto at = all.begin(); at != all.end();) {
    const size_t end = at->first.rfind("gate_proj");
    const std::string parent = at->first.substr(0, end);
    if (end == std::string::npos || !all.contains(parent + "up_proj") || !parent.ends_with(".")) {
      ++at;
      continue;
    }
    std::vector<float> both = at->second;
    const std::vector<float>& up = all[parent + "up_proj"];
    both.insert(both.end(), up.begin(), up.end());
    all.erase(parent + "up_proj");
    at = all.erase(at);
    all[parent + "gate_up_proj"] = std::move(both);
  }
  return all;
}

inline void expect_same_numbers(const std::string& source, const QuantiseJob& job) {
  const auto expected = with_halves_joined(with_usual_names(numbers_of(source, &job.request)));
  const auto found = with_halves_joined(with_usual_names(numbers_of(job.out, nullptr)));
  ASSERT_EQ(expected.size(), found.size()) << job.request.target.name;
  for (const auto& [name, values] : expected) {
    ASSERT_TRUE(found.contains(name)) << name;
    EXPECT_TRUE(same_bits(values, found.at(name))) << job.request.target.name << " " << name;
  }
}

}  // namespace vernier::testing
