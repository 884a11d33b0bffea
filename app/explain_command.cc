#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <unordered_map>

#include "app/commands.h"
#include "app/device_flags.h"
#include "app/model_flags.h"
#include "app/tactic_sources.h"
#include "checkpoint/checkpoint_binder.h"
#include "models/registry.h"
#include "tune/tactic_store.h"

namespace vernier {
namespace {

struct ExplainFlags {
  ModelFlags model;
  DeviceFlags device;
  int64_t rows = 1;
  int layer = -1;
  bool tactics = false;
};

struct Line {
  int layer;
  std::string op;
  std::string weights;
  Choice choice;
  std::string scale_origin;
  std::string experts;  // which of them a row meets
  std::optional<Tactic> tactic = std::nullopt;
  std::optional<SlowerInUse> slower = std::nullopt;  // what a run with --tune-watch noted of it
};

/// What explains a model: its parts, where they run, and what each layer keeps.
struct Explained {
  const std::string& path;
  const Backend& backend;
  std::vector<DecoderPart> parts;
  std::vector<CacheSpec> caches;
  const TacticStore* tactics;  // null: the backend chooses by none
};

std::vector<Line> explain(const Explained& model, const ExplainFlags& flags) {
  std::vector<Line> lines;
  for (const DecoderPart& part : model.parts) {
    if (flags.layer >= 0 && part.layer != flags.layer) continue;
    if (part.matrix != nullptr) {
      for (Choice& choice : model.backend.explain_linear(*part.matrix, part.rows_of(flags.rows))) {
        lines.push_back({part.layer, part.op, part.weights, std::move(choice), part.matrix->info().scale_origin,
                         part.experts != nullptr ? part.experts->to_string() : ""});
      }
    } else {
      const CacheSpec& cache = model.caches[static_cast<size_t>(part.layer)];
      const std::string scales = part.attn->spec.causal && has_cache_scale(cache.stored) ? describe_cache(cache) : "";
      lines.push_back(
          {part.layer, part.op, "", model.backend.explain_attend(part.attn->spec, cache, flags.rows), scales, ""});
    }
  }
  return lines;
}

/// What the store knows of each problem, were it tuned.
Status add_tactics(const Explained& model, std::vector<Line>& lines) {
  if (model.tactics == nullptr) {
    return unsupported("the {} backend chooses by no tactics; cpu does", model.backend.name());
  }
  for (Line& line : lines) {
    const TacticKey key = tactic_key(line.choice.problem);
    if (const Tactic* found = model.tactics->find(key)) line.tactic = *found;
    line.slower = model.tactics->slower(key);
  }
  return {};
}

nlohmann::json to_json(const Tactic& tactic) {
  return {{"kernel", tactic.chosen.kernel},
          {"median_ns", tactic.time.median_ns},
          {"spread_ns", tactic.time.spread_ns},
          {"repeats", tactic.time.repeats},
          {"tie", tactic.tie},
          {"measured_at_ms", tactic.measured_at_ms},
          {"version", tactic.version}};
}

nlohmann::json to_json(const Line& line) {
  nlohmann::json facts = nlohmann::json::object();
  for (const auto& fact : line.choice.problem.facts) facts[fact.name] = fact.value;
  nlohmann::json parameters = nlohmann::json::object();
  for (const auto& fact : line.choice.chosen().parameters) parameters[fact.name] = fact.value;
  nlohmann::json candidates = nlohmann::json::array();
  for (const Candidate& c : line.choice.candidates) {
    candidates.push_back({{"kernel", c.kernel}, {"reason", name(c.reason.code)}, {"detail", c.reason.detail}});
  }
  return {{"layer", line.layer},
          {"op", line.op},
          {"weights", line.weights},
          {"problem", line.choice.problem.op},
          {"facts", facts},
          {"kernel", line.choice.chosen().kernel},
          {"parameters", parameters},
          {"layout", line.choice.layout},
          {"scales", line.scale_origin},
          {"experts", line.experts},
          {"candidates", candidates},
          {"tactic", line.tactic ? to_json(*line.tactic) : nlohmann::json(nullptr)},
          {"slower_in_use_ns", line.slower ? nlohmann::json(line.slower->median_ns) : nlohmann::json(nullptr)}};
}

/// A name of a tensor or a module without the number of its layer.
std::string without_layer(std::string names, int layer) {
  const std::string number = fmt::format(".{}.", layer);
  for (std::string_view before : {"layers", "layer", "blk"}) {
    const std::string from = std::string(before) + number;
    for (size_t at = names.find(from); at != std::string::npos; at = names.find(from, at + 1)) {
      names.replace(at + before.size() + 1, number.size() - 2, "*");
    }
  }
  return names;
}

std::string describe(const Tactic& tactic) {
  return fmt::format("{}, {} +- {} over {} repeats{}; measured {} UTC by {}", kernel_text(tactic.chosen),
                     time_text(tactic.time.median_ns), time_text(tactic.time.spread_ns), tactic.time.repeats,
                     lead_text(tactic), calendar_text(tactic.measured_at_ms), tactic.version);
}

/// "int8_tile_avx2", and how its work is cut where that was chosen.
std::string chosen_text(const Candidate& chosen) {
  return kernel_text({chosen.kernel, "", chosen.parameters});
}

/// All but the layer, as it is shown.
std::string describe(const Line& line, int layer) {
  const Choice& choice = line.choice;
  std::string text = fmt::format("{}: {}\n    {}\n", line.op, chosen_text(choice.chosen()), choice.problem.to_string());
  if (!choice.layout.empty()) text += fmt::format("    layout: {}\n", choice.layout);
  if (line.tactic) text += fmt::format("    tactic: {}\n", describe(*line.tactic));
  if (line.slower) text += fmt::format("    slower in use: {}\n", slower_text(*line.slower));
  if (!line.weights.empty()) text += fmt::format("    weights: {}\n", without_layer(line.weights, layer));
  if (!line.experts.empty()) text += fmt::format("    experts: {}\n", line.experts);
  if (!line.scale_origin.empty()) text += fmt::format("    scales: {}\n", without_layer(line.scale_origin, layer));
  for (const Candidate& c : choice.candidates) {
    if (c.reason.code == ReasonCode::kChosen) continue;
    text += fmt::format("    not {}: {}{}{}\n", c.kernel, name(c.reason.code), c.reason.detail.empty() ? "" : ", ",
                        c.reason.detail);
  }
  return text;
}

/// Layers in order, as in "layers 0-4, 6".
std::string layers_text(const std::vector<int>& layers) {
  if (layers.front() < 0) return "";
  std::string text;
  for (size_t first = 0; first < layers.size();) {
    size_t last = first;
    while (last + 1 < layers.size() && layers[last + 1] == layers[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", layers[first]);
    if (last > first) text += fmt::format("{}{}", last > first + 1 ? "-" : ", ", layers[last]);
    first = last + 1;
  }
  return fmt::format("{} {} ", layers.size() == 1 ? "layer" : "layers", text);
}

/// Layers that differ in nothing are told of once.
void print_folded(const std::vector<Line>& lines) {
  struct Fold {
    std::vector<int> layers;
    const Line* first;
  };
  std::vector<Fold> folds;
  std::unordered_map<std::string, size_t> known;
  for (const Line& line : lines) {
    const auto [found, fresh] = known.try_emplace(describe(line, line.layer), folds.size());
    if (fresh) folds.push_back({{}, &line});
    folds[found->second].layers.push_back(line.layer);
  }
  for (const Fold& fold : folds) {
    const int layer = fold.layers.size() > 1 ? fold.first->layer : -1;
    fmt::print("{}{}", layers_text(fold.layers), describe(*fold.first, layer));
  }
}

void print_totals(const std::vector<Line>& lines) {
  std::map<std::string, int> counts;
  for (const Line& line : lines) ++counts[line.choice.chosen().kernel];
  std::string text;
  for (const auto& [kernel, count] : counts) text += fmt::format("{}{} x {}", text.empty() ? "" : ", ", count, kernel);
  fmt::print("kernels: {}\n", text);
}

/// The problems without a tactic are told of once each: they are what tuning would measure.
void print_untuned(const std::vector<Line>& lines) {
  std::set<std::string> all, untuned;
  for (const Line& line : lines) {
    const std::string problem = line.choice.problem.to_string();
    all.insert(problem);
    if (!line.tactic) untuned.insert(problem);
  }
  fmt::print("tactics: known for {} of {} problems\n", all.size() - untuned.size(), all.size());
  for (const std::string& problem : untuned) fmt::print("untuned: {}\n", problem);
}

Status print_lines(const std::string& path, const Features& features, const std::vector<Line>& lines,
                   const ExplainFlags& flags) {
  if (global_options().json) {
    nlohmann::json all = nlohmann::json::array();
    for (const Line& line : lines) all.push_back(to_json(line));
    fmt::print("{}\n", all.dump(2));
    return {};
  }
  fmt::print("{} on {}: {} kernels, for steps of {} rows\n", path, features.device, features.isa, flags.rows);
  print_totals(lines);
  if (flags.tactics) print_untuned(lines);
  print_folded(lines);
  return {};
}

Error no_such_layer(const ExplainFlags& flags, size_t layers) {
  return invalid_argument("--layer {}: the model has layers 0 to {}", flags.layer, layers - 1);
}

Status print_explained(const Explained& model, const ExplainFlags& flags) {
  std::vector<Line> lines = explain(model, flags);
  if (lines.empty()) return no_such_layer(flags, model.caches.size());
  if (flags.tactics) TRY_STATUS(add_tactics(model, lines));
  return print_lines(model.path, model.backend.features(), lines, flags);
}

ProductUse use_of(const DecoderPart& part) {
  if (part.experts == nullptr) return ProductUse::kLinear;
  return part.op == "experts_gate_up" ? ProductUse::kExpertsGated : ProductUse::kExperts;
}

/// The products as an accelerator would run them; nothing is loaded but what their layouts measure.
Status explain_for_device(const ExplainFlags& flags) {
  TRY_BIND(PlanRules rules, flags.device.rules());
  TRY_BIND(std::string path, find_model(flags.model.model));
  TRY_BIND(std::unique_ptr<Checkpoint> checkpoint, Checkpoint::open(path));
  TRY_BIND(Config config, checkpoint->config());
  TRY_BIND(DecoderSpec spec, read_decoder(config));
  const size_t layers = spec.layers.size();
  PlannedBackend backend(std::move(rules));
  CheckpointBinder binder(*checkpoint, backend);
  TRY_BIND(Decoder decoder, Decoder::bind(std::move(spec), binder));
  TRY_STATUS(binder.finish(decoder.spec().unneeded));
  std::vector<Line> lines;
  for (const DecoderPart& part : decoder.parts()) {
    if (part.matrix == nullptr || part.op == "embed" || (flags.layer >= 0 && part.layer != flags.layer)) continue;
    TRY_BIND(auto choices, backend.plan_product(*part.matrix, part.rows_of(flags.rows), use_of(part)));
    for (Choice& choice : choices) {
      lines.push_back({part.layer, part.op, part.weights, std::move(choice), part.matrix->info().scale_origin,
                       part.experts != nullptr ? part.experts->to_string() : ""});
    }
  }
  if (lines.empty()) return no_such_layer(flags, layers);
  return print_lines(path, backend.features(), lines, flags);
}

Status run_explain(const ExplainFlags& flags) {
  if (flags.rows < 1) return invalid_argument("--rows {}: expected at least 1", flags.rows);
  if (flags.device.given() && flags.tactics) {
    return invalid_argument("--tactics tells of the device that is here; --device-features of one that is not");
  }
  if (flags.device.given()) return explain_for_device(flags);
  TRY_BIND(const bool encoder, names_encoder(flags.model));
  if (encoder) {
    TRY_BIND(std::unique_ptr<LoadedEncoder> model, load_encoder_for(flags.model));
    const auto layers = static_cast<size_t>(model->encoder().spec().layers);
    return print_explained(
        {model->path(), model->backend(), model->encoder().parts(), std::vector<CacheSpec>(layers), model->tactics()},
        flags);
  }
  TRY_BIND(std::unique_ptr<LoadedModel> model, load_for(flags.model));
  TRY_BIND(RunnerOptions options, flags.model.runner_options(*model));
  return print_explained({model->path(), model->backend(), model->decoder().parts(), options.caches, model->tactics()},
                         flags);
}

}  // namespace

void add_explain_command(CLI::App& app) {
  auto flags = std::make_shared<ExplainFlags>();
  CLI::App* command = app.add_subcommand(
      "explain", "For each layer and op: kernel, layout, scales, and why not another; equal layers once");
  flags->model.add_to(*command);
  flags->device.add_to(*command);
  command->add_option("--rows", flags->rows, "Tokens of a step: 1 for decode, hundreds for prefill")
      ->capture_default_str();
  command->add_option("--layer", flags->layer, "This layer alone");
  command->add_flag("--tactics", flags->tactics, "With what was measured of each problem, and what was not");
  flags->model.tune.add_to(*command);
  set_work(*command, [flags] { return run_explain(*flags); });
}

}  // namespace vernier
