#include "app/shard_table.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "api/shard_report.h"
#include "app/commands.h"
#include "app/device_flags.h"
#include "base/progress.h"
#include "checkpoint/checkpoint_binder.h"
#include "models/registry.h"

namespace vernier {
namespace {

/// One way to cut the model.
struct Cutting {
  const char* experts;  // "cut" or "whole"; empty: the model has none
  ShardReport report;
  std::vector<int> better;  // numbers of ranks without padding
};

nlohmann::json to_json(const Cutting& cutting) {
  nlohmann::json ranks = nlohmann::json::array();
  for (const RankShare& rank : cutting.report.ranks) {
    ranks.push_back({{"heads", rank.heads},
                     {"kv_heads", rank.kv_heads},
                     {"feed_forward", rank.feed_forward},
                     {"experts", rank.experts},
                     {"expert_width", rank.expert_width},
                     {"weight_bytes", rank.weight_bytes},
                     {"padding_bytes", rank.padding_bytes},
                     {"repeated_bytes", rank.repeated_bytes},
                     {"flops_per_token", rank.flops},
                     {"padding_flops_per_token", rank.padding_flops}});
  }
  return {{"experts", cutting.experts},
          {"kv_heads_repeat", cutting.report.kv_heads_repeat},
          {"cache_copies", cutting.report.cache_copies},
          {"ranks_without_heads", cutting.report.ranks_without_heads},
          {"repeated_bytes", cutting.report.repeated_bytes()},
          {"repeated_flops_share", cutting.report.repeated_share()},
          {"padding_bytes", cutting.report.padding_bytes()},
          {"padding_flops_share", cutting.report.padding_share()},
          {"ranks_without_padding", cutting.better},
          {"ranks", ranks}};
}

/// What it costs that there are more ranks than heads.
void print_repeated(const ShardReport& report) {
  if (report.kv_heads_repeat) {
    fmt::print("key-value heads stand on several ranks: {} of weights and {:.1f} % of all products again\n",
               format_bytes(report.repeated_bytes()), 100 * report.repeated_share());
  }
  if (report.cache_copies > 1) fmt::print("keys and values are cached {:.3g} times\n", report.cache_copies);
  if (report.ranks_without_heads > 0) {
    fmt::print("{} of {} ranks have no query head and wait while the others attend\n", report.ranks_without_heads,
               report.ranks.size());
  }
}

void print_cutting(const Cutting& cutting) {
  const bool experts = *cutting.experts != '\0';
  if (experts) fmt::print("experts {}\n", cutting.experts);
  fmt::print("{:>6} {:>7} {:>9} {:>13} {:>16} {:>11} {:>11} {:>14} {:>9}\n", "rank", "heads", "kv heads",
             "feed-forward", "experts", "weights", "padding", "MFLOP a token", "padding");
  for (size_t i = 0; i < cutting.report.ranks.size(); ++i) {
    const RankShare& rank = cutting.report.ranks[i];
    const std::string own =
        rank.experts == 0 && !experts ? "-" : fmt::format("{} of {}", rank.experts, rank.expert_width);
    fmt::print("{:>6} {:>7} {:>9} {:>13} {:>16} {:>11} {:>11} {:>14.3f} {:>7.1f} %\n", i, rank.heads, rank.kv_heads,
               rank.feed_forward == 0 && experts ? "-" : fmt::format("{}", rank.feed_forward), own,
               format_bytes(rank.weight_bytes), format_bytes(rank.padding_bytes),
               (rank.flops + rank.padding_flops) / 1e6,
               rank.flops > 0 ? 100 * rank.padding_flops / (rank.flops + rank.padding_flops) : 0.0);
  }
  print_repeated(cutting.report);
  const int64_t padding = cutting.report.padding_bytes();
  if (padding == 0) {
    fmt::print("no padding\n\n");
    return;
  }
  fmt::print(
      "padding {}, {:.1f} % of all products; without: {}\n\n", format_bytes(padding),
      100 * cutting.report.padding_share(),
      cutting.better.empty() ? "no number of ranks" : fmt::format("{} ranks", fmt::join(cutting.better, " or ")));
}

Result<Cutting> cut_model(const Decoder& decoder, const DeviceFeatures& device, int ranks, ExpertCut cut,
                          const char* experts) {
  TRY_BIND(ShardReport report, plan_shards(decoder, device, ranks, cut));
  return Cutting{experts, std::move(report), ranks_without_padding(decoder, device, ranks, cut)};
}

}  // namespace

void ShardFlags::add_to(CLI::App& command) {
  command.add_option("--shards", ranks, "What each of so many ranks would have, and what padding costs it")
      ->check(CLI::Range(1, 1024));
  command.add_option("--device-features", device, "With --shards: the chip whose kernels pad, by name or JSON file")
      ->capture_default_str();
}

Status print_shards(const Checkpoint& checkpoint, const ShardFlags& flags) {
  PlanRules rules;
  TRY_BIND(rules.device, read_device_features(flags.device));
  TRY_BIND(Config config, checkpoint.config());
  TRY_BIND(DecoderSpec spec, read_decoder(config));
  PlannedBackend backend(rules);
  CheckpointBinder binder(checkpoint, backend);
  TRY_BIND(Decoder decoder, Decoder::bind(std::move(spec), binder));
  TRY_STATUS(binder.finish(decoder.spec().unneeded));
  const bool has_experts =
      std::ranges::any_of(decoder.spec().layers, [](const LayerSpec& layer) { return layer.experts.has_value(); });
  std::vector<Cutting> cuttings;
  TRY_BIND(Cutting cut, cut_model(decoder, rules.device, flags.ranks, ExpertCut::kWidth, has_experts ? "cut" : ""));
  cuttings.push_back(std::move(cut));
  if (has_experts) {
    TRY_BIND(Cutting whole, cut_model(decoder, rules.device, flags.ranks, ExpertCut::kWhole, "whole"));
    cuttings.push_back(std::move(whole));
  }
  if (global_options().json) {
    nlohmann::json all = nlohmann::json::array();
    for (const Cutting& cutting : cuttings) all.push_back(to_json(cutting));
    fmt::print("{}\n", nlohmann::json{{"device", rules.device.name}, {"shards", flags.ranks}, {"cuts", all}}.dump(2));
    return {};
  }
  fmt::print("{} for {} ranks of {}; embedding, head and router whole on each\n\n", checkpoint.path(), flags.ranks,
             rules.device.name);
  for (const Cutting& cutting : cuttings) print_cutting(cutting);
  return {};
}

}  // namespace vernier
