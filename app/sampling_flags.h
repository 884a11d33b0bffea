#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "api/loaded_model.h"
#include "engine/generate.h"

namespace vernier {

/// The flags of every command that draws tokens. What is not given comes from the model's own generation defaults, else
/// from a sober setting for a person at a terminal: temperature 0.7, top-p 0.95.
struct SamplingFlags {
  std::optional<float> temperature, top_p, min_p, repetition_penalty;
  std::optional<int32_t> top_k;
  float frequency_penalty = 0;
  float presence_penalty = 0;
  std::vector<std::string> logit_bias;  ///< "TOKEN_ID=BIAS"
  std::optional<uint64_t> seed;         ///< none: a new one each time
  bool deterministic = false;           ///< none: a fixed one
  std::string dialect = "openai";
  int32_t max_tokens = 512;
  std::vector<std::string> stops;
  bool ignore_eos = false;

  void add_to(CLI::App& command);
  Result<GenerateOptions> options(const LoadedModel& model) const;
};

}  // namespace vernier
