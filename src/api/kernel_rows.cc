#include "api/kernel_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ops/cache_spec.h"

namespace vernier {
namespace {

constexpr double kLargeRead = 256e6, kMiddleRead = 64e6;    // bytes of a cache
constexpr double kLargeMatrix = 50e6, kSmallMatrix = 15e6;  // bytes of weights
constexpr int kLongContext = 131072, kShortContext = 4096;

const char* const kSmolLm2 =
    R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 576, "intermediate_size": 1536,
        "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3, "vocab_size": 49152,
        "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "rope_theta": 100000, "tie_word_embeddings": true,
        "hidden_act": "silu"})";
const char* const kGptOss20b =
    R"({"model_type": "gpt_oss", "architectures": ["GptOssForCausalLM"], "hidden_size": 2880,
        "intermediate_size": 2880, "num_hidden_layers": 24, "num_attention_heads": 64, "num_key_value_heads": 8,
        "head_dim": 64, "vocab_size": 201088, "max_position_embeddings": 131072, "rms_norm_eps": 1e-5,
        "rope_theta": 150000, "sliding_window": 128, "num_local_experts": 32, "num_experts_per_tok": 4,
        "swiglu_limit": 7.0, "attention_bias": true, "tie_word_embeddings": false, "hidden_act": "silu"})";

std::string attend_name(const AttendWork& work) {
  std::string name =
      fmt::format("attend {} {}/{}/{} ", cache_type_name(work.stored), work.heads, work.kv_heads, work.head_dim);
  name += work.prompt > 0 ? fmt::format("prompt of {}", work.prompt) : fmt::format("at {}", work.depth);
  if (work.window > 0) name += fmt::format(" window {}", work.window);
  return name;
}

void add_decode_attention(std::vector<KernelRow>& rows) {
  for (int depth : {256, kShortContext, 32768, kLongContext}) {
    AttendWork wide{32, 8, 128, CodecId::kBF16, depth};
    const std::string wide_name = attend_name(wide);
    rows.push_back({wide_name, wide, {}});
    AttendWork narrow = wide;
    narrow.stored = CodecId::kE4M3Tensor;
    KernelRow row{attend_name(narrow), narrow, {}};
    if (depth <= kShortContext) row.goals.push_back({GoalOf::kTimeOf, 1.03, wide_name});
    if (narrow.bytes() >= kMiddleRead) {
      row.goals.push_back({GoalOf::kCopy, narrow.bytes() >= kLargeRead ? 0.75 : 0.65});
    }
    if (narrow.bytes() >= kLargeRead) row.goals.push_back({GoalOf::kTimeOf, 0.62, wide_name});
    rows.push_back(std::move(row));
  }
  AttendWork near{64, 8, 64, CodecId::kE4M3Tensor, 512, 128}, far = near;
  far.depth = kLongContext;
  rows.push_back({attend_name(near), near, {}});
  rows.push_back({attend_name(far), far, {{GoalOf::kTimeOf, 1.10, attend_name(near)}}});
}

void add_prompt_attention(std::vector<KernelRow>& rows) {
  AttendWork wide{32, 8, 128, CodecId::kBF16, 0, 0, 16384}, narrow = wide;
  narrow.stored = CodecId::kE4M3Tensor;
  rows.push_back({attend_name(wide), wide, {{GoalOf::kProducts, 0.65}}});
  rows.push_back({attend_name(narrow), narrow, {{GoalOf::kProducts, 0.9}}});
}

void add_products(std::vector<KernelRow>& rows) {
  const auto add = [&](const ProductWork& work, std::vector<KernelGoal> goals) {
    rows.push_back({fmt::format("product e4m3[128x128] {}x{} {} rows", work.outputs, work.inputs, work.rows), work,
                    std::move(goals)});
  };
  const std::pair<int64_t, int64_t> sizes[] = {{7168, 16384}, {4096, 7168}, {2112, 7168}};
  for (const auto& [outputs, inputs] : sizes) {
    const auto bytes = static_cast<double>(outputs * inputs);
    for (int of : {1, 4, 16, 64}) {
      std::vector<KernelGoal> goals;
      if (bytes >= kSmallMatrix) goals.push_back({GoalOf::kCopy, bytes >= kLargeMatrix ? 0.75 : 0.50});
      add({CodecId::kE4M3Block, outputs, inputs, of}, std::move(goals));
    }
  }
  add({CodecId::kE4M3Block, 7168, 16384, 4096}, {{GoalOf::kProducts, 1.5}});
}

void add_experts(std::vector<KernelRow>& rows) {
  ExpertsWork work;
  work.spec.experts = 32;
  work.spec.chosen = 4;
  work.spec.width = 2880;
  work.spec.normalize = true;
  work.spec.gate = {Act::kSilu, 7.0f, 1.702f, 1.0f};
  work.hidden = 2880;
  for (int of : {1, 4, 16, 64}) {
    work.rows = of;
    rows.push_back(
        {fmt::format("experts mxfp4 gpt-oss-20b {} rows", of), work, {{GoalOf::kCopy, of < 4 ? 0.50 : 0.60}}});
  }
}

bool names(const KernelRow& row, const std::string& other) {
  return std::ranges::any_of(row.goals, [&](const KernelGoal& goal) { return goal.row == other; });
}

}  // namespace

AttnSpec AttendWork::spec() const {
  AttnSpec spec;
  spec.heads = heads, spec.kv_heads = kv_heads, spec.head_dim = head_dim;
  spec.scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  spec.rope.dim = head_dim;
  if (window > 0) spec.window = window;
  return spec;
}

double AttendWork::bytes() const {
  CacheSpec cache;
  cache.kv_heads = kv_heads, cache.head_dim = head_dim, cache.stored = stored;
  const int tokens = prompt > 0 ? prompt : window > 0 ? std::min(window, depth + 1) : depth + 1;
  return static_cast<double>(cache.bytes_per_token()) * tokens;
}

double AttendWork::operations() const {
  const double each = 4.0 * heads * head_dim, rows = prompt;
  if (prompt == 0) return each * (window > 0 ? std::min(window, depth + 1) : depth + 1);
  const double full = window > 0 ? std::min<double>(window, rows) : rows;  // rows before one that sees a whole window
  return each * (full * (full + 1) / 2 + (rows - full) * full);
}

std::vector<KernelRow> kernel_rows(std::string_view only) {
  std::vector<KernelRow> rows;
  add_decode_attention(rows);
  add_products(rows);
  add_experts(rows);
  rows.push_back({"decode smollm2-135m q4_1", DecodeWork{kSmolLm2, CodecId::kQ4_1}, {{GoalOf::kTokens, 1880}}});
  rows.push_back({"decode gpt-oss-20b bf16, experts mxfp4", DecodeWork{kGptOss20b}, {{GoalOf::kTokens, 450}}});
  add_prompt_attention(rows);
  const std::vector<KernelRow> all = rows;
  const auto asked = [&](const KernelRow& row) { return row.name.find(only) != std::string::npos; };
  std::erase_if(rows, [&](const KernelRow& row) {
    return !asked(row) &&
           std::ranges::none_of(all, [&](const KernelRow& of) { return asked(of) && names(of, row.name); });
  });
  return rows;
}

std::vector<GoalOutcome> judge_goals(const KernelResult& result, const std::vector<KernelResult>& all,
                                     const KernelLimits& limits) {
  std::vector<GoalOutcome> outcomes;
  for (const KernelGoal& goal : result.row.goals) {
    GoalOutcome outcome{goal, {}, false};
    if (goal.of == GoalOf::kCopy && limits.copy_bytes_per_s > 0) {
      outcome.reached = result.time.bytes / result.time.seconds / limits.copy_bytes_per_s;
    } else if (goal.of == GoalOf::kProducts && limits.product_ops_per_s) {
      outcome.reached = result.time.operations / result.time.seconds / *limits.product_ops_per_s;
    } else if (goal.of == GoalOf::kTokens) {
      outcome.reached = 1 / result.time.seconds;
    } else if (goal.of == GoalOf::kTimeOf) {
      const auto other = std::ranges::find(all, goal.row, [](const KernelResult& of) { return of.row.name; });
      if (other != all.end()) outcome.reached = result.time.seconds / other->time.seconds;
    }
    if (outcome.reached) {
      outcome.met = goal.of == GoalOf::kTimeOf ? *outcome.reached <= goal.number : *outcome.reached >= goal.number;
    }
    outcomes.push_back(std::move(outcome));
  }
  return outcomes;
}

std::string to_string(const GoalOutcome& outcome) {
  const KernelGoal& goal = outcome.goal;
  if (goal.of == GoalOf::kTokens) {
    return fmt::format("{:.0f} tok/s (goal {:.0f}: {})", outcome.reached.value_or(0), goal.number,
                       outcome.met ? "met" : "missed");
  }
  const std::string of = goal.of == GoalOf::kCopy       ? "copy"
                         : goal.of == GoalOf::kProducts ? "cuBLAS"
                                                        : "the time of " + goal.row;
  if (!outcome.reached) return fmt::format("{} was not measured (goal {:.2f})", of, goal.number);
  return fmt::format("{:.2f} of {} (goal {}{:.2f}: {})", *outcome.reached, of,
                     goal.of == GoalOf::kTimeOf ? "at most " : "", goal.number, outcome.met ? "met" : "missed");
}

}  // namespace vernier
