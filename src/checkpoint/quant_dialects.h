#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint/quant_plan.h"

namespace vernier {

/// One place that describes a quantisation, as its file spells it.
struct QuantSource {
  std::string origin;  ///< "quantization_config", "hf_quant_config.json"
  std::string where;   ///< the file
  nlohmann::json scheme;
};

/// All sources of a Hugging Face folder: config.json at both of its levels, and ModelOpt's file of its own.
Result<std::vector<QuantSource>> find_quant_sources(const std::string& folder, const nlohmann::json& config);

/// Reads one source strictly: a method, an algorithm or a key that is not known is refused by name.
Result<QuantPlan> read_quant_source(const QuantSource& source);

/// The plan that all sources agree on, empty where there is none. `modules` are the checkpoint's.
Result<QuantPlan> read_quant_plan(const std::vector<QuantSource>& sources, const std::vector<std::string>& modules);

}  // namespace vernier
