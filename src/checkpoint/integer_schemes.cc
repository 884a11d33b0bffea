#include <algorithm>
#include <array>
#include <string>

#include "checkpoint/byte_reader.h"
#include "checkpoint/quant_keys.h"

namespace vernier {

namespace {

using Json = nlohmann::json;

Error unsupported_value(const Config& scheme, std::string_view key, const Json& found, std::string_view expected) {
  return Error{ErrorCode::kUnsupported,
               fmt::format("\"{}\" is {}, expected {}", key, printable(found.dump(-1, ' ', true)), expected),
               scheme.where()};
}

/// Columns of a group; 0: a whole row.
Result<int> read_group(Config& scheme, std::string_view key, int64_t fallback) {
  TRY_BIND(int64_t group, scheme.integer(key, fallback));
  if (group == -1) return 0;
  if (group < 1 || group > (1 << 20)) return unsupported_value(scheme, key, group, "-1 or a number of columns");
  return static_cast<int>(group);
}

/// Bits, group and mode of MLX; `fallback` stands for what an override leaves out.
Result<WeightScheme> mlx_scheme(Config& settings, const WeightScheme& fallback) {
  WeightScheme scheme = fallback;
  TRY_BIND(std::string mode, settings.text("mode", fallback.algorithm.empty() ? "affine" : fallback.algorithm));
  scheme.algorithm = mode;
  scheme.in_words = true;
  int64_t usual_group = 64, usual_bits = 4;
  if (mode == "affine") {
    scheme.form = WeightForm::kMlx;
  } else if (mode == "mxfp4" || mode == "mxfp8") {
    scheme.form = mode == "mxfp4" ? WeightForm::kMxfp4 : WeightForm::kMxfp8;
    usual_group = 32;
    usual_bits = mode == "mxfp4" ? 4 : 8;
  } else if (mode == "nvfp4") {
    scheme.form = WeightForm::kNvfp4;
    usual_group = 16;
  } else {
    return unsupported_value(settings, "mode", mode, "affine, mxfp4, mxfp8 or nvfp4");
  }
  const bool inherits = mode == fallback.algorithm;
  TRY_BIND(int64_t bits, settings.integer("bits", inherits ? fallback.bits : usual_bits));
  TRY_BIND(scheme.group, read_group(settings, "group_size", inherits ? fallback.group : usual_group));
  const bool affine = scheme.form == WeightForm::kMlx;
  if (affine ? (bits < 2 || bits > 8 || bits == 7) : bits != usual_bits) {
    return unsupported_value(settings, "bits", bits, affine ? "2, 3, 4, 5, 6 or 8" : "those of its mode");
  }
  if (!affine && scheme.group != usual_group) {
    return unsupported_value(settings, "group_size", scheme.group, "that of its mode");
  }
  scheme.bits = static_cast<int>(bits);
  return scheme;
}

}  // namespace

Status read_awq(Config& scheme, QuantPlan& plan) {
  scheme.ignore({"quant_method", "backend", "do_fuse", "fuse_max_seq_len", "modules_to_fuse", "exllama_config"});
  WeightScheme weights;
  weights.form = WeightForm::kAwq;
  weights.algorithm = "awq";
  TRY_BIND(int64_t bits, scheme.integer(scheme.has("w_bit") ? "w_bit" : "bits", 4));
  TRY_BIND(weights.group, read_group(scheme, scheme.has("q_group_size") ? "q_group_size" : "group_size", 128));
  TRY_BIND(bool zeros, scheme.boolean("zero_point", true));
  TRY_BIND(std::string version, scheme.text("version", "gemm"));
  if (bits != 4) return unsupported_value(scheme, "bits", bits, "4");
  if (!zeros) return unsupported_value(scheme, "zero_point", zeros, "true");
  if (lower_case(version) != "gemm") return unsupported_value(scheme, "version", version, "gemm");
  weights.bits = 4;
  plan.rules.push_back({"", weights});
  plan.every_linear = 0;
  return {};
}

Status read_gptq(Config& scheme, QuantPlan& plan) {
  scheme.ignore({"quant_method", "damp_percent", "damp_auto_increment", "static_groups", "true_sequential", "meta"});
  scheme.ignore({"model_name_or_path", "model_file_base_name", "dataset", "tokenizer", "batch_size", "exllama_config"});
  scheme.ignore(
      {"use_cuda_fp16", "use_exllama", "disable_exllama", "max_input_length", "model_seqlen", "pad_token_id"});
  scheme.ignore({"desc_act", "sym", "quantizer", "cache_block_outputs", "block_name_to_quantize", "backend"});
  WeightScheme weights;
  weights.form = WeightForm::kGptq;
  weights.algorithm = "gptq";
  TRY_BIND(int64_t bits, scheme.integer("bits"));
  if (bits != 2 && bits != 4 && bits != 8) return unsupported_value(scheme, "bits", bits, "2, 4 or 8");
  weights.bits = static_cast<int>(bits);
  TRY_BIND(weights.group, read_group(scheme, "group_size", 128));
  TRY_BIND(std::string format, scheme.text("checkpoint_format", scheme.has("format") ? "" : "gptq"));
  TRY_BIND(std::string named, scheme.text("format", format));
  if (format.empty()) format = named;
  if ((format != "gptq" && format != "gptq_v2") || named != format) {
    return unsupported_value(scheme, "checkpoint_format", format, "gptq or gptq_v2, under one name");
  }
  weights.zeros_less_one = format == "gptq";
  TRY_BIND(std::string packed_in, scheme.text("pack_dtype", "int32"));
  if (packed_in != "int32") return unsupported_value(scheme, "pack_dtype", packed_in, "int32");
  for (const char* key : {"dynamic", "modules_in_block_to_quantize"}) {
    const Json& value = scheme.raw(key);
    if (!value.is_null() && !value.empty()) return unsupported_value(scheme, key, value, "none: every layer alike");
  }
  TRY_BIND(bool head, scheme.boolean("lm_head", false));
  if (!head) {
    TRY_BIND(ModulePattern pattern, ModulePattern::make("lm_head"));
    plan.excluded.push_back(std::move(pattern));
    if (plan.excluded_key.empty()) plan.excluded_key = "modules that gptq leaves";
  }
  plan.rules.push_back({"", weights});
  plan.every_linear = 0;
  return {};
}

Status read_mlx(Config& scheme, const Json& tree, QuantPlan& plan) {
  TRY_BIND(WeightScheme usual, mlx_scheme(scheme, {}));
  plan.rules.push_back({"", usual});
  plan.every_linear = 0;
  plan.parts_may_differ = true;
  plan.only_if_stored = true;  // a module without scales was left as it was
  for (const auto& [module, setting] : tree.items()) {
    if (!setting.is_object() && !setting.is_boolean()) continue;
    scheme.raw(module);
    size_t rule = 0;
    if (setting.is_object()) {
      Config own(setting, fmt::format("{}: {}", scheme.where(), printable(module)));
      TRY_BIND(WeightScheme override_scheme, mlx_scheme(own, usual));
      TRY_STATUS(own.finish());
      rule = plan.rules.size();
      plan.rules.push_back({module, override_scheme});
    } else if (!setting.get<bool>()) {
      rule = plan.rules.size();
      plan.rules.push_back({module, {}});
    }
    plan.listed.emplace(without_wrappers(module), rule);
  }
  return {};
}

}  // namespace vernier
