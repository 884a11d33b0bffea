#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/quant_plan.h"
#include "ops/config.h"

namespace vernier {

/// Steps that the dialects' readers share. Each reads its keys and leaves the others unread, so that Config::finish
/// names them.

/// The exclusion list under whichever of its four names; two lists that differ are an error.
Status read_excluded(Config& scheme, QuantPlan& plan);
/// What the KV cache was calibrated for, under either name.
Status read_cache_algorithm(Config& scheme, QuantPlan& plan);
/// A list of texts under `key`, empty where there is none.
Result<std::vector<std::string>> text_list(Config& scheme, std::string_view key);
std::string lower_case(std::string text);
std::string upper_case(std::string text);

Status read_fp8(Config& scheme, QuantPlan& plan);
Status read_mxfp4(Config& scheme, QuantPlan& plan);
Status read_modelopt(Config& scheme, QuantPlan& plan);
Status read_compressed_tensors(Config& scheme, QuantPlan& plan);
Status read_awq(Config& scheme, QuantPlan& plan);
Status read_gptq(Config& scheme, QuantPlan& plan);
/// `tree` is what `scheme` reads: its other keys are modules with settings of their own.
Status read_mlx(Config& scheme, const nlohmann::json& tree, QuantPlan& plan);

/// The rules of "config_groups", as compressed-tensors and ModelOpt write them. `format` is that of groups that have
/// none of their own.
Status read_config_groups(const nlohmann::json& groups, const std::string& format, bool global_divides,
                          QuantPlan& plan);

}  // namespace vernier
