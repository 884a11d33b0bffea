#include "checkpoint/weight_quantiser.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "checkpoint/byte_reader.h"

namespace vernier {

namespace {

using enum CodecId;

/// In the order of lists for people. Formats with groups of 256 fall back as llama.cpp's tools do: to the nearest one
/// of at least as many bits with groups of 32.
const std::vector<QuantTarget>& targets() {
  static const std::vector<QuantTarget> all = {
      {"fp8", codec(kE4M3Tensor), {}},
      {"fp8_channel", codec(kE4M3Channel), {}},
      {"fp8_block", block_codec(kE4M3Block, 128, 128, ScaleType::kF32), {}},
      {"mxfp8", codec(kMxfp8), {}},
      {"mxfp4", codec(kMxfp4), {}},
      {"nvfp4", codec(kNvfp4), {}},
      {"q8_0", codec(kQ8_0), {}},
      {"q6_k", codec(kQ6_K), {kQ8_0}},
      {"q5_k", codec(kQ5_K), {kQ5_1}},
      {"q5_1", codec(kQ5_1), {}},
      {"q5_0", codec(kQ5_0), {}},
      {"q4_k", codec(kQ4_K), {kQ5_0}},
      {"q4_1", codec(kQ4_1), {}},
      {"q4_0", codec(kQ4_0), {}},
      {"q3_k", codec(kQ3_K), {kQ4_0}},
      {"q2_k", codec(kQ2_K), {kQ4_0}},
      {"bf16", codec(kBF16), {}},
      {"f16", codec(kF16), {}},
      {"f32", codec(kF32), {}},
  };
  return all;
}

}  // namespace

Result<QuantTarget> find_quant_target(std::string_view flag, std::string_view word) {
  for (const QuantTarget& target : targets()) {
    if (target.name == word) return target;
  }
  return invalid_argument("{} {}: not a format that is written; there are {}", flag, printable(word),
                          quant_target_names());
}

std::string quant_target_names() {
  std::vector<std::string_view> names;
  for (const QuantTarget& target : targets()) names.push_back(target.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

Result<WeightQuantiser> WeightQuantiser::make(const Checkpoint& checkpoint, QuantiseRequest request) {
  WeightQuantiser made(std::move(request));
  const QuantPlan& plan = checkpoint.plan();
  if (!plan.rules.empty() && !made.request_.requantise) {
    made.quantised_ = fmt::format("{} by {}", describe(plan.rules.front().scheme), plan.origin);
  }
  for (const std::string& text : made.request_.keep) {
    TRY_BIND(ModulePattern pattern, ModulePattern::make(text));
    const bool is_matched = std::ranges::any_of(checkpoint.tensors(), [&](const StoredTensor& tensor) {
      return pattern.matches(std::string_view(tensor.name).substr(0, tensor.name.rfind('.')));
    });
    if (!is_matched) return invalid_argument("--keep {}: no module is called so", printable(text));
    made.keep_.push_back(std::move(pattern));
  }
  return made;
}

bool WeightQuantiser::takes(const std::string& module, PackUse use) const {
  if (use != PackUse::kLinear || (module == "lm_head" && !request_.head)) return false;
  return std::ranges::none_of(keep_, [&](const ModulePattern& pattern) { return pattern.matches(module); });
}

Result<Codec> WeightQuantiser::codec_for(int64_t cols) const {
  const Codec& wanted = request_.target.codec;
  if (cols % wanted.column_multiple() == 0) return wanted;
  for (CodecId other : request_.target.narrower_groups) {
    if (cols % codec(other).column_multiple() == 0) return codec(other);
  }
  return unsupported("{} columns are no multiple of {}, the group of {}; --keep leaves a module as it is", cols,
                     wanted.column_multiple(), request_.target.name);
}

Status WeightQuantiser::apply(std::span<const WeightPart> parts, PackUse use, std::vector<QTensor>& segments) const {
  QuantiseOptions options{0, request_.threads};
  auto about = [&](size_t i, const Error& error) {
    return Error{error.code, error.to_string(), printable(parts[i].name)};
  };
  for (size_t i = 0; i < parts.size() && request_.target.codec.outer_scale && parts.size() > 1; ++i) {
    if (!takes(parts[i].name, use)) continue;
    Result<float> largest = largest_finite(segments[i], options.threads);
    if (!largest.ok()) return about(i, largest.error());
    options.largest = std::max(options.largest, *largest);
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!takes(parts[i].name, use)) continue;
    Result<Codec> target = codec_for(segments[i].cols());
    if (!target.ok()) return about(i, target.error());
    const Codec& own = segments[i].codec();
    if (!quantised_.empty() && !own.is_dense() && own != *target) {
      return Error{
          ErrorCode::kUnsupported,
          fmt::format("quantised already ({}): quantising its {} codes again to {} loses twice; take the original "
                      "checkpoint, or write one with `vernier quantize --allow-requantize`, which reports the loss",
                      quantised_, own.name, request_.target.name),
          printable(parts[i].name)};
    }
    Result<QTensor> made = quantise(segments[i], *target, options);
    if (!made.ok()) return about(i, made.error());
    segments[i] = *std::move(made);
  }
  return {};
}

}  // namespace vernier
