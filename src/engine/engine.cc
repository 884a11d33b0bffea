#include "engine/engine.h"

#include <algorithm>
#include <limits>

#include "engine/engine_loop.h"

namespace vernier {
namespace {

constexpr int32_t kDefaultContext = 8192;
constexpr int32_t kDefaultCachedContexts = 4;

/// Blocks of each class for a cache of `tokens` positions in all; a window class never needs more than its sequences'
/// windows.
std::vector<SchedClass> classes_for(const ModelShape& shape, const EngineOptions& options, int64_t tokens) {
  std::vector<SchedClass> classes;
  for (const CacheSpec& layer : shape.layers) {
    const auto c = static_cast<size_t>(layer.cache_class);
    if (classes.size() <= c) classes.resize(c + 1);
    int64_t blocks = (tokens + options.block_tokens - 1) / options.block_tokens;
    if (layer.window) {
      // Windows slide to the start of a block, so that the last whole block ends a prefix.
      const int64_t window = int64_t{*layer.window} + (options.prefix_cache ? options.block_tokens - 1 : 0);
      blocks = std::min(
          blocks, int64_t{options.max_sequences} *
                      BlockTable::most_blocks(options.block_tokens,
                                              static_cast<int32_t>(std::min<int64_t>(window, options.context_tokens)),
                                              options.context_tokens, options.max_step_rows));
    }
    classes[c] = {static_cast<int32_t>(std::min<int64_t>(blocks, INT32_MAX / options.block_tokens)), layer.window};
  }
  return classes;
}

int64_t bytes_of(const ModelShape& shape, const std::vector<SchedClass>& classes, int32_t block_tokens) {
  int64_t bytes = 0;
  for (const CacheSpec& layer : shape.layers) {
    bytes += layer.bytes_per_token() * block_tokens * classes[static_cast<size_t>(layer.cache_class)].blocks;
  }
  return bytes;
}

/// The most positions whose blocks fit into that many bytes.
int64_t tokens_in(const ModelShape& shape, const EngineOptions& options, int64_t bytes) {
  int64_t fits = 0, beyond = int64_t{1} << 31;
  while (beyond - fits > 1) {
    const int64_t middle = fits + (beyond - fits) / 2;
    const bool fit = bytes_of(shape, classes_for(shape, options, middle), options.block_tokens) <= bytes;
    (fit ? fits : beyond) = middle;
  }
  return fits;
}

/// Positions that there are blocks for.
int64_t cached_tokens(const ModelShape& shape, const EngineOptions& options) {
  const auto keeps = [](const CacheSpec& layer) { return layer.bytes_per_token() > 0; };
  // Blocks that hold nothing cost nothing.
  if (std::ranges::none_of(shape.layers, keeps)) {
    return int64_t{options.max_sequences} * (options.context_tokens + options.block_tokens);
  }
  if (options.cache_bytes > 0) return tokens_in(shape, options, options.cache_bytes);
  return int64_t{kDefaultCachedContexts} * options.context_tokens;
}

/// A cell of the chunk grid that holds any prompt.
int32_t whole_prompt_rows(const EngineOptions& options) {
  return (options.context_tokens + options.block_tokens - 1) / options.block_tokens * options.block_tokens;
}

Status check_request(const Request& request, const ModelShape& shape) {
  if (request.prompt.empty()) return invalid_argument("the prompt is empty; at least one token is needed");
  for (int32_t token : request.prompt) {
    if (token < 0 || token >= shape.vocab) {
      return invalid_argument("token id {} is outside the vocabulary of {}", token, shape.vocab);
    }
  }
  if (request.max_tokens < 0) return invalid_argument("max_tokens is {}, expected 0 or more", request.max_tokens);
  return request.sampling.check(shape.vocab);
}

Status resolve(const ModelShape& shape, EngineOptions& options) {
  if (options.context_tokens == 0) options.context_tokens = std::min(shape.max_positions, kDefaultContext);
  if (options.context_tokens < 2 || options.context_tokens > shape.max_positions) {
    return invalid_argument("context of {} tokens, expected 2 to {}: what the model was made for",
                            options.context_tokens, shape.max_positions);
  }
  if (options.max_sequences < 1)
    return invalid_argument("{} running requests, expected at least 1", options.max_sequences);
  if (options.max_queue < 0) return invalid_argument("a queue of {}, expected 0 or more", options.max_queue);
  options.max_step_rows = std::max(options.max_step_rows, options.max_sequences);
  if (shape.whole_prompts) {
    options.max_step_rows = std::max(options.max_step_rows, whole_prompt_rows(options) + options.max_sequences - 1);
    options.prefix_cache = false;
  }
  const int64_t least = bytes_of(shape, classes_for(shape, options, 1), options.block_tokens);
  if (options.cache_bytes > 0 && options.cache_bytes < least) {
    return invalid_argument("a cache of {} bytes (--kv-bytes), expected at least {}: one block of {} tokens",
                            options.cache_bytes, least, options.block_tokens);
  }
  return {};
}

}  // namespace

Engine::Engine(std::unique_ptr<EngineLoop> loop, const EngineOptions& options)
    : options_(options), loop_(std::move(loop)) {}

Engine::~Engine() = default;

Result<std::unique_ptr<Engine>> Engine::start(std::unique_ptr<StepRunner> runner, const EngineOptions& wanted) {
  EngineOptions options = wanted;
  const ModelShape& shape = runner->shape();
  TRY_STATUS(resolve(shape, options));
  SchedConfig config;
  config.classes = classes_for(shape, options, cached_tokens(shape, options));
  options.cache_bytes = bytes_of(shape, config.classes, options.block_tokens);
  config.block_tokens = options.block_tokens;
  config.max_rows = options.max_step_rows;
  config.max_sequences = options.max_sequences;
  config.max_queue = std::numeric_limits<int32_t>::max();  // submit counts; the planner's queue never refuses
  config.context_tokens = options.context_tokens;
  config.prefix_cache = options.prefix_cache;
  // Until a step has shown how fast this machine is.
  config.prefill_rows_when_decoding = config.prefill_rows_alone =
      std::min(4 * options.block_tokens, options.max_step_rows);
  if (shape.whole_prompts) {
    // Chunks of a grid are computed whole or not at all.
    config.chunk_grid_rows = config.prefill_rows_when_decoding = whole_prompt_rows(options);
    config.prefill_rows_alone = config.max_rows;  // short prompts of one step beside each other
  }
  TRY_BIND(std::unique_ptr<SchedState> state, SchedState::make(config));
  options.context_tokens = state->most_tokens();

  std::vector<int32_t> blocks;
  for (const SchedClass& cache_class : config.classes) blocks.push_back(cache_class.blocks);
  TRY_STATUS(runner->prepare(blocks, options.block_tokens, options.max_step_rows));
  auto loop = std::make_unique<EngineLoop>(std::move(runner), std::move(state), options);
  return std::unique_ptr<Engine>(new Engine(std::move(loop), options));
}

const ModelShape& Engine::shape() const {
  return loop_->shape();
}

Result<RequestId> Engine::submit(Request request, std::shared_ptr<RequestSink> sink) {
  TRY_STATUS(check_request(request, shape()));
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  const bool generates = request.kind == RequestKind::kGenerate && request.max_tokens > 0;
  if (prompt + (generates ? 1 : 0) > options_.context_tokens) {
    return invalid_argument(
        "the prompt has {} tokens, and with at least one of an answer the context of {} is exceeded", prompt,
        options_.context_tokens);
  }
  return loop_->submit(std::move(request), std::move(sink));
}

void Engine::cancel(RequestId id) {
  loop_->cancel(id);
}

EngineStats Engine::stats() const {
  return loop_->stats();
}

void Engine::flush_cache() {
  loop_->flush_cache();
}

void Engine::drain() {
  loop_->drain();
}

bool Engine::idle() const {
  return loop_->idle();
}

}  // namespace vernier
