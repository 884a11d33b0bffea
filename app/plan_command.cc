#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "app/machine.h"
#include "app/model_flags.h"
#include "base/progress.h"
#include "checkpoint/checkpoint_binder.h"
#include "engine/engine.h"
#include "models/encoder.h"
#include "models/registry.h"
#include "ops/null_backend.h"

namespace vernier {
namespace {

/// What a model takes before anything of it is loaded.
struct MemoryPlan {
  int64_t weight_bytes = 0;
  int64_t step_bytes = 0;  ///< activations of the widest step
  int64_t available_bytes = 0;
  int32_t max_positions = 0;
  std::vector<CacheSpec> caches;
  int32_t block_tokens = 0;
  int32_t chunk_rows = 0;

  int64_t cache_bytes(int32_t context) const {
    int64_t bytes = 0;
    for (const CacheSpec& cache : caches) {
      const int32_t blocks = BlockTable::most_blocks(block_tokens, cache.window, context, chunk_rows);
      bytes += cache.bytes_per_token() * block_tokens * blocks;
    }
    return bytes;
  }
  int64_t total_bytes(int32_t context) const { return weight_bytes + step_bytes + cache_bytes(context); }
  /// Longest context, of what the model was made for, that fits; 0 where none does.
  int32_t longest_context() const {
    int64_t fits = 0, beyond = int64_t{max_positions} + 1;
    while (beyond - fits > 1) {
      const int64_t middle = fits + (beyond - fits) / 2;
      (total_bytes(static_cast<int32_t>(middle)) <= available_bytes ? fits : beyond) = middle;
    }
    return static_cast<int32_t>(fits);
  }
};

/// Runs one dry step of as many rows as the plan says and returns the most activation bytes that were alive.
Result<int64_t> dry_run(NullBackend& backend, const MemoryPlan& plan, const std::function<void(Ops&)>& forward) {
  KvLayout layout{plan.caches, std::vector<int32_t>(static_cast<size_t>(cache_classes(plan.caches)), 1),
                  plan.block_tokens};
  TRY_BIND(std::unique_ptr<KvStore> kv, backend.make_kv(layout));
  NullOps ops(plan.chunk_rows);
  std::vector<int32_t> zeros(static_cast<size_t>(plan.chunk_rows), 0), last = {plan.chunk_rows - 1};
  std::vector<int32_t> begin = {0, 1};
  std::vector<CacheTable> tables(layout.class_blocks.size(),
                                 {plan.block_tokens, std::span(zeros).first(1), begin, std::span(zeros).first(1)});
  std::vector<SequenceRows> sequences = {{0, plan.chunk_rows, 0}};
  ops.begin({zeros, zeros, sequences, tables, last});
  forward(ops);
  return ops.peak_bytes();
}

/// An encoder caches nothing: its longest text is one step.
Result<MemoryPlan> plan_encoder(const Checkpoint& checkpoint, Config& config) {
  TRY_BIND(EncoderSpec spec, read_encoder(config));
  MemoryPlan plan;
  plan.max_positions = static_cast<int32_t>(
      std::min<int64_t>(spec.max_positions, checkpoint.embedding().max_tokens.value_or(INT32_MAX)));
  plan.block_tokens = EngineOptions().block_tokens;
  plan.chunk_rows = std::max(EngineOptions().max_step_rows, plan.max_positions);
  NullBackend backend;
  CheckpointBinder binder(checkpoint, backend);
  TRY_BIND(Encoder encoder, Encoder::bind(std::move(spec), binder));
  plan.weight_bytes = backend.weight_bytes();
  TRY_BIND(plan.step_bytes, dry_run(backend, plan, [&](Ops& ops) { encoder.forward(ops); }));
  plan.available_bytes = read_machine().available_bytes;
  return plan;
}

Result<MemoryPlan> make_plan(const ModelFlags& flags) {
  TRY_BIND(std::string path, find_model(flags.model));
  TRY_BIND(std::unique_ptr<Checkpoint> checkpoint, Checkpoint::open(path));
  TRY_BIND(Config config, checkpoint->config());
  if (names_encoder(config)) return plan_encoder(*checkpoint, config);
  TRY_BIND(DecoderSpec spec, read_decoder(config));
  TRY_BIND(const CacheSource source, read_cache_source(*checkpoint));
  TRY_BIND(RunnerOptions options, flags.runner_options(spec, source));
  MemoryPlan plan;
  plan.max_positions = static_cast<int32_t>(spec.max_positions);
  plan.caches = options.caches;
  plan.block_tokens = options.block_tokens;
  plan.chunk_rows = options.chunk_rows;
  NullBackend backend;
  CheckpointBinder binder(*checkpoint, backend);
  TRY_BIND(Decoder decoder, Decoder::bind(std::move(spec), binder));
  plan.weight_bytes = backend.weight_bytes();
  TRY_BIND(plan.step_bytes, dry_run(backend, plan, [&](Ops& ops) { decoder.head(ops, decoder.forward(ops)); }));
  plan.available_bytes = read_machine().available_bytes;
  return plan;
}

Status does_not_fit(const MemoryPlan& plan) {
  return make_error(ErrorCode::kOutOfMemory, "the weights alone take {}, {} is available; use a narrower checkpoint",
                    format_bytes(plan.weight_bytes), format_bytes(plan.available_bytes));
}

Status run_plan(const ModelFlags& flags) {
  TRY_BIND(MemoryPlan plan, make_plan(flags));
  std::vector<int32_t> contexts;
  for (int64_t context = 2048; context < plan.max_positions; context *= 4)
    contexts.push_back(static_cast<int32_t>(context));
  contexts.push_back(plan.max_positions);
  if (flags.max_model_len > 0) contexts = {flags.max_model_len};
  const int32_t longest = plan.longest_context();

  if (global_options().json) {
    nlohmann::json rows = nlohmann::json::array();
    for (int32_t context : contexts) {
      rows.push_back({{"context_tokens", context},
                      {"cache_bytes", plan.cache_bytes(context)},
                      {"total_bytes", plan.total_bytes(context)},
                      {"fits", plan.total_bytes(context) <= plan.available_bytes}});
    }
    fmt::print("{}\n", nlohmann::json{{"weight_bytes", plan.weight_bytes},
                                      {"step_bytes", plan.step_bytes},
                                      {"available_bytes", plan.available_bytes},
                                      {"longest_context_tokens", longest},
                                      {"contexts", rows}}
                           .dump(2));
    return longest == 0 ? does_not_fit(plan) : Status();
  }
  fmt::print("weights {}, a step of {} rows {}; {} available\n\n", format_bytes(plan.weight_bytes), plan.chunk_rows,
             format_bytes(plan.step_bytes), format_bytes(plan.available_bytes));
  fmt::print("{:>10} {:>12} {:>12}\n", "context", "cache", "in all");
  for (int32_t context : contexts) {
    fmt::print("{:>10} {:>12} {:>12}  {}\n", context, format_bytes(plan.cache_bytes(context)),
               format_bytes(plan.total_bytes(context)),
               plan.total_bytes(context) <= plan.available_bytes ? "fits" : "does not fit");
  }
  if (longest == 0) return does_not_fit(plan);
  fmt::print("\nlongest context that fits: {} tokens of the {} that the model was made for\n", longest,
             plan.max_positions);
  return {};
}

}  // namespace

void add_plan_command(CLI::App& app) {
  auto flags = std::make_shared<ModelFlags>();
  CLI::App* command = app.add_subcommand("plan", "What fits: weights, cache and context, before loading");
  flags->add_to(*command);
  set_work(*command, [flags] { return run_plan(*flags); });
}

}  // namespace vernier
