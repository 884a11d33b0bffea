#include "app/tune_flags.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <utility>

#include "app/number_flags.h"
#include "base/log.h"
#include "base/progress.h"

namespace vernier {
namespace {

constexpr double kMostBudgetSeconds = 1e6;
/// Of untuned problems, as many are named.
constexpr size_t kNamedProblems = 6;

/// Refuses a pin that no product of the model has, at whatever number of rows.
Status check_pins(std::span<const TunedProblem> problems, std::span<const TacticPin> pins) {
  for (const TacticPin& pin : pins) {
    std::vector<std::string> words = pin.words;
    std::erase_if(words, [](const std::string& word) { return word.starts_with("batch="); });
    if (std::ranges::none_of(problems, [&](const TunedProblem& one) { return matches_problem(one.problem, words); })) {
      return invalid_argument("pin '{}' finds no product of this model; vernier explain MODEL tells what there is",
                              pin.text);
    }
  }
  return {};
}

std::string fact_of(const Problem& problem, std::string_view name) {
  const auto found = std::ranges::find(problem.facts, name, &Problem::Fact::name);
  return found == problem.facts.end() ? "?" : found->value;
}

}  // namespace

void TuneFlags::add_to(CLI::App& command) {
  command
      .add_option("--tune", tune,
                  "Before it starts: off measures nothing and uses what is known, missing measures what is not known, "
                  "full all of it")
      ->check(CLI::IsMember({"off", "missing", "full"}))
      ->capture_default_str();
  command.add_option("--tune-budget", budget, "With --tune: time for it (10s, 500ms, 2min)")->capture_default_str();
  command.add_option("--tune-memory", most_bytes, "With --tune: memory for it beside the model (1GB)")
      ->transform(byte_size());
  command
      .add_option("--tune-skip", skip,
                  "Ops that are not measured, as explain names them (head, gate_up); linear: nor chosen by tactics")
      ->delimiter(',');
  command
      .add_option("--tune-pin", pins,
                  "A choice of your own: 'linear[3072x576] batch=1 => int8_tile_avx2 chunk_panels=2'; may be given "
                  "often")
      ->allow_extra_args(false);
  command
      .add_option(
          "--tune-watch", watch,
          "Times one product in so many beside what was measured of it, and tells which prove slower (64; 0: none)")
      ->check(CLI::Range(int64_t{0}, int64_t{1'000'000'000}))
      ->capture_default_str();
  store.add_to(command);
  command
      .add_option("--on-untuned", on_untuned,
                  "Where a product has no tactic and takes its fixed choice: error, warn or allow")
      ->check(CLI::IsMember({"error", "warn", "allow"}))
      ->capture_default_str();
}

Result<TacticUse> TuneFlags::use() const {
  TacticUse use;
  use.skip = skip;
  use.watch_every = watch;
  for (const std::string& pin : pins) {
    TRY_BIND(TacticPin parsed, TacticPin::parse(pin));
    use.pins.push_back(std::move(parsed));
  }
  return use;
}

Result<std::shared_ptr<TacticStore>> TuneFlags::open_store(const BackendOptions& backend) const {
  TRY_BIND(TunePlaces places, tune_places(store));
  Result<TacticScope> scope = tactic_scope(backend);
  if (!scope.ok()) {
    const bool asked = tune != "off" || on_untuned == "error" || !store.stores.empty();
    if (asked && scope.error().code == ErrorCode::kUnsupported) return std::move(scope).error();
    return std::shared_ptr<TacticStore>();
  }
  TacticStoreOptions options;
  options.folder = std::move(places.user);
  options.layers = std::move(places.layers);
  return std::make_shared<TacticStore>(std::move(scope).value(), std::move(options));
}

Result<TuneRequest> TuneFlags::request() const {
  TuneRequest request;
  request.what = tune == "full" ? TuneWhat::kAll : TuneWhat::kMissing;
  TRY_BIND(request.budget_ns, parse_budget_ns("--tune-budget", budget));
  request.most_bytes = most_bytes;
  request.skip = skip;
  request.version = VERNIER_VERSION;
  return request;
}

Status TuneFlags::settle(Backend& backend, std::span<const DecoderPart> parts, TacticStore* store) const {
  if (tune == "off" && (budget != TuneFlags().budget || most_bytes != TuneFlags().most_bytes)) {
    log_warning("--tune-budget and --tune-memory change nothing with --tune=off: nothing is measured");
  }
  if (store == nullptr) return {};
  TRY_BIND(const TacticUse use, this->use());
  if (!use.pins.empty()) TRY_STATUS(check_pins(list_problems(backend, parts), use.pins));
  if (tune != "off") {
    TRY_BIND(TuneRequest request, this->request());
    TRY_BIND(const TuneReport report, tune_with_progress(backend, parts, *store, std::move(request)));
    using State = TunedProblem::State;
    log_info("tuned {} problems in {}: {} were known, {} are left for another time", report.count(State::kMeasured),
             format_duration(report.elapsed_ns), report.count(State::kKnown), report.count(State::kNotCovered));
  } else if (!skip.empty()) {
    TRY_STATUS(check_skipped_ops(list_problems(backend, parts), skip));
  }
  return on_untuned == "allow" ? Status() : check_untuned(backend, parts, *store);
}

Status TuneFlags::check_untuned(const Backend& backend, std::span<const DecoderPart> parts, TacticStore& store) const {
  TRY_BIND(const TacticUse use, this->use());
  std::vector<std::string> untuned;
  const std::vector<TunedProblem> problems = list_problems(backend, parts);
  for (const TunedProblem& one : problems) {
    if (store.find(tactic_key(one.problem)) != nullptr || use.pin_of(one.problem) != nullptr) continue;
    untuned.push_back(short_problem_text(one.problem));
  }
  if (untuned.empty()) return {};
  const size_t named = std::min(untuned.size(), kNamedProblems);
  const std::string more = untuned.size() > named ? fmt::format("; and {} more", untuned.size() - named) : "";
  const std::string text = fmt::format("{} of {} products have no tactic here: {}{}", untuned.size(), problems.size(),
                                       fmt::join(std::span(untuned).first(named), "; "), more);
  if (on_untuned == "error") {
    return unsupported("--on-untuned=error, and {}; vernier tune measures them, --on-untuned=warn goes on", text);
  }
  log_warning("{}; vernier tune measures them", text);
  return {};
}

Result<TuneReport> with_progress(const TuneWork& work, TuneRequest request) {
  std::optional<Progress> bar;
  request.on_progress = [&](int64_t done, int64_t total) {
    if (!bar) bar.emplace("tuning", total, ProgressUnit::kCount);
    bar->set(done);
  };
  return work(request);
}

Result<TuneReport> tune_with_progress(Backend& backend, std::span<const DecoderPart> parts, TacticStore& store,
                                      TuneRequest request) {
  return with_progress([&](const TuneRequest& with_bar) { return tune_model(backend, parts, store, with_bar); },
                       std::move(request));
}

std::string short_problem_text(const Problem& problem) {
  const std::string batch = fact_of(problem, "batch");
  const std::string exact = fact_of(problem, "numerics") == "exact" ? " exact" : "";
  return fmt::format("{} {}x{} {}{}, {} row{}", problem.op, fact_of(problem, "rows"), fact_of(problem, "cols"),
                     fact_of(problem, "codec"), exact, batch, batch == "1" ? "" : "s");
}

Result<int64_t> parse_budget_ns(std::string_view flag, std::string_view text) {
  static const std::map<std::string_view, double> kUnits = {{"", 1.0},    {"s", 1.0},  {"sec", 1.0},
                                                            {"ms", 1e-3}, {"m", 60.0}, {"min", 60.0}};
  double value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  const auto found = kUnits.find(unit);
  if (failure != std::errc() || found == kUnits.end() || !(value >= 0) || value * found->second > kMostBudgetSeconds) {
    return invalid_argument("{} {}: expected a time such as 60s, 500ms or 2min", flag, text);
  }
  return static_cast<int64_t>(value * found->second * 1e9);
}

}  // namespace vernier
