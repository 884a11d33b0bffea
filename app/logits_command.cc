#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "app/cached_logits.h"
#include "app/commands.h"
#include "app/model_flags.h"
#include "app/output_file.h"
#include "base/progress.h"
#include "base/unfinished_output.h"
#include "checkpoint/safetensors.h"

namespace vernier {
namespace {

struct LogitsFlags {
  ModelFlags model;
  std::string ids;
  std::string out;
  int32_t chunk = 0;
  int32_t cached = 0;
  int32_t generate = 0;
};

/// Of a file, or as it stands there where it begins with a bracket.
Result<nlohmann::json> read_ids_text(const std::string& given) {
  if (given.starts_with('[')) return nlohmann::json::parse(given, nullptr, false);
  std::ifstream file(given);
  if (!file) {
    return not_found(
        "--ids {}: no such file; expected a JSON file with lists of token ids, or the lists: '[[1, 2], [3]]'", given);
  }
  return nlohmann::json::parse(file, nullptr, false);
}

/// [[1, 2], [3]]: at least one list, none empty.
Result<std::vector<std::vector<int32_t>>> read_ids(const std::string& path) {
  TRY_BIND(nlohmann::json tree, read_ids_text(path));
  if (!tree.is_array() || tree.empty())
    return invalid_argument("--ids {}: expected lists of token ids, such as [[1, 2], [3]]", path);
  std::vector<std::vector<int32_t>> lists;
  for (const nlohmann::json& list : tree) {
    if (!list.is_array() || list.empty()) {
      return invalid_argument("{}: list {} is empty or no list; expected token ids", path, lists.size());
    }
    std::vector<int32_t> ids;
    for (const nlohmann::json& id : list) {
      if (!id.is_number_integer() || id < 0 || id > INT32_MAX) {
        return invalid_argument("{}: list {} holds {}, expected a token id", path, lists.size(), id.dump());
      }
      ids.push_back(id.get<int32_t>());
    }
    lists.push_back(std::move(ids));
  }
  return lists;
}

/// Greedy continuation of what the runner holds; `first` is the choice after its last token.
Result<std::vector<int32_t>> continue_greedily(SequenceRunner& runner, int32_t first, int32_t count) {
  std::vector<int32_t> tokens = {first};
  while (static_cast<int32_t>(tokens.size()) < count) {
    TRY_BIND(SampledToken next, runner.feed_and_sample({&tokens.back(), 1}, {.temperature = 0}));
    tokens.push_back(next.token);
  }
  return tokens;
}

void add_tensors(size_t list, std::vector<NamedNumbers>& tensors, const std::vector<float>& logits,
                 const std::vector<int32_t>& greedy, int64_t vocab) {
  const auto rows = static_cast<int64_t>(logits.size()) / vocab;
  tensors.push_back({fmt::format("logits.{}", list), {rows, vocab}, std::span(logits)});
  if (greedy.empty()) return;
  tensors.push_back({fmt::format("greedy.{}", list), {static_cast<int64_t>(greedy.size())}, std::span(greedy)});
}

Status run_logits(const LogitsFlags& flags) {
  TRY_STATUS(check_writable(flags.out));
  TRY_BIND(const std::string path, find_model(flags.model.model));
  TRY_BIND(const std::unique_ptr<Checkpoint> checkpoint, Checkpoint::open(path));
  TRY_STATUS(check_no_input(flags.out, *checkpoint, flags.ids));
  TRY_BIND(auto lists, read_ids(flags.ids));
  TRY_BIND(std::unique_ptr<LoadedModel> model, load_for(flags.model));
  const DecoderSpec& spec = model->decoder().spec();
  TRY_BIND(RunnerOptions options, flags.model.runner_options(*model));
  TRY_STATUS(flags.model.check_fallbacks(kernel_fallbacks(*model, options.caches)));
  options.chunk_rows = flags.chunk > 0 ? flags.chunk : 64;
  TRY_BIND(auto runner, SequenceRunner::make(model->backend(), model->decoder(), options));

  std::vector<std::vector<float>> logits(lists.size());    // [list][tokens, vocab]
  std::vector<std::vector<int32_t>> greedy(lists.size());  // [list][generate]
  std::vector<NamedNumbers> tensors;
  int64_t all_tokens = 0;
  for (const auto& list : lists) all_tokens += static_cast<int64_t>(list.size());
  Progress progress("logits", all_tokens, ProgressUnit::kCount);
  int64_t reused = 0;
  for (size_t i = 0; i < lists.size(); ++i) {
    if (flags.cached > 0) {
      TRY_BIND(CachedLogits two,
               run_cached(model->backend(), model->decoder(), options, lists[i], flags.cached, flags.generate));
      logits[i] = std::move(two.logits);
      greedy[i] = std::move(two.greedy);
      reused += two.cached_tokens;
      progress.add(static_cast<int64_t>(lists[i].size()));
      add_tensors(i, tensors, logits[i], greedy[i], spec.vocab);
      continue;
    }
    runner->reset();
    logits[i].reserve(lists[i].size() * static_cast<size_t>(spec.vocab));
    TRY_STATUS(runner->feed_for_logits(lists[i], [&](std::span<const float> rows) {
      logits[i].insert(logits[i].end(), rows.begin(), rows.end());
      progress.add(static_cast<int64_t>(rows.size()) / spec.vocab);
    }));
    if (flags.generate > 0) {
      auto last_row = logits[i].end() - static_cast<std::ptrdiff_t>(spec.vocab);
      auto best = static_cast<int32_t>(std::max_element(last_row, logits[i].end()) - last_row);
      TRY_BIND(greedy[i], continue_greedily(*runner, best, flags.generate));
    }
    add_tensors(i, tensors, logits[i], greedy[i], spec.vocab);
  }
  progress.finish();
  TRY_STATUS(write_safetensors(flags.out, tensors));
  if (global_options().json) {
    fmt::print("{}\n", nlohmann::json{{"lists", lists.size()},
                                      {"tokens", all_tokens},
                                      {"vocab", spec.vocab},
                                      {"cached_tokens", reused},
                                      {"kv_saturated", runner->saturated()}}
                           .dump());
    return {};
  }
  fmt::print("{}: logits of {} lists, {} tokens\n", flags.out, lists.size(), all_tokens);
  if (flags.cached > 0) fmt::print("{} of them were read from the cache that a request before had filled\n", reused);
  return {};
}

}  // namespace

void add_logits_command(CLI::App& app) {
  auto flags = std::make_shared<LogitsFlags>();
  CLI::App* command = app.add_subcommand("logits", "Write the logits of lists of token ids, to compare engines");
  flags->model.add_to(*command);
  flags->model.add_fallback_flag(*command);
  flags->model.tune.add_to(*command);
  command->add_option("--ids", flags->ids, "Lists of token ids, '[[1, 2], [3]]', or a JSON file with them")->required();
  command->add_option("--out", flags->out, "Safetensors file for logits.0, logits.1, ... (float32 [tokens, vocab])")
      ->required();
  command->add_option("--chunk", flags->chunk, "Rows of a step; 1 takes the decode path")->check(CLI::Range(1, 65536));
  command->add_option("--cached", flags->cached, "First tokens to run as a request of their own, whose cache is reused")
      ->check(CLI::Range(1, 1 << 30));
  command->add_option("--generate", flags->generate, "Also write this many greedy tokens as greedy.0, ...")
      ->check(CLI::Range(1, 1 << 20));
  set_work(*command, [flags] {
    UnfinishedOutput::remove_on_signals();
    return run_logits(*flags);
  });
}

}  // namespace vernier
