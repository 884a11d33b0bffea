#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "client/conformance.h"
#include "client/load_run.h"

namespace vernier {
namespace {

using nlohmann::ordered_json;

struct SelftestFlags {
  std::string url;
  std::string model;
  std::string api_key;
  std::vector<std::string> only;
  bool ours = false;
  double timeout_s = 60;
};

constexpr std::pair<char, std::string_view> kGroups[] = {
    {'T', "transport, errors"}, {'Q', "chat requests"}, {'R', "chat answers"}, {'S', "chat streams"},
    {'C', "completions"},       {'E', "embeddings"},    {'M', "models"},       {'P', "responses"}};

struct CheckedRow {
  ConformanceCheck check;
  CheckResult result;
};

std::string_view outcome_name(CheckOutcome outcome) {
  return outcome == CheckOutcome::kPassed ? "passed" : outcome == CheckOutcome::kFailed ? "failed" : "skipped";
}

bool wanted(const ConformanceCheck& check, const SelftestFlags& flags) {
  if (!check.standard && !flags.ours) return false;
  return flags.only.empty() ||
         std::ranges::any_of(flags.only, [&](const std::string& start) { return check.number.starts_with(start); });
}

size_t count_of(const std::vector<CheckedRow>& rows, char group, CheckOutcome outcome) {
  return static_cast<size_t>(std::ranges::count_if(rows, [&](const CheckedRow& row) {
    return (group == 0 || row.check.number[0] == group) && row.result.outcome == outcome;
  }));
}

void print_rows(const std::vector<CheckedRow>& rows) {
  fmt::print("\n{:<22}{:>8}{:>8}{:>9}\n", "", "passed", "failed", "skipped");
  for (const auto& [group, name] : kGroups) {
    const size_t passed = count_of(rows, group, CheckOutcome::kPassed);
    const size_t failed = count_of(rows, group, CheckOutcome::kFailed);
    const size_t skipped = count_of(rows, group, CheckOutcome::kSkipped);
    if (passed + failed + skipped > 0) {
      fmt::print("{} {:<20}{:>8}{:>8}{:>9}\n", group, name, passed, failed, skipped);
    }
  }
  for (const CheckedRow& row : rows) {
    if (row.result.outcome == CheckOutcome::kPassed) continue;
    fmt::print("\n{} {}: {}\n    {}\n", row.check.number, outcome_name(row.result.outcome), row.check.what,
               row.result.reason);
  }
}

ordered_json rows_json(const std::vector<CheckedRow>& rows, const CheckTarget& target) {
  ordered_json list = ordered_json::array();
  for (const CheckedRow& row : rows) {
    list.push_back({{"number", row.check.number},
                    {"what", row.check.what},
                    {"standard", row.check.standard},
                    {"outcome", outcome_name(row.result.outcome)},
                    {"reason", row.result.reason}});
  }
  return {{"url", target.url.to_string()},
          {"model", target.model},
          {"passed", count_of(rows, 0, CheckOutcome::kPassed)},
          {"failed", count_of(rows, 0, CheckOutcome::kFailed)},
          {"skipped", count_of(rows, 0, CheckOutcome::kSkipped)},
          {"checks", std::move(list)}};
}

Status run_selftest(const SelftestFlags& flags) {
  if (!(flags.timeout_s > 0 && flags.timeout_s <= 1e6)) {
    return invalid_argument("--timeout {}: expected seconds above 0", flags.timeout_s);
  }
  CheckTarget target;
  TRY_BIND(target.url, parse_server_url(flags.url));
  target.api_key = flags.api_key;
  target.limits.silence_s = flags.timeout_s;
  target.limits.total_s = 4 * flags.timeout_s;
  target.model = flags.model;
  if (target.model.empty()) {
    TRY_BIND(target.model, first_served_model(target.url, target.api_key, target.limits));
  }
  std::vector<CheckedRow> rows;
  const bool live = !global_options().json;
  if (live) fmt::print("{} at {}\n", target.model, target.url.to_string());
  for (const ConformanceCheck& check : conformance_checks()) {
    if (!wanted(check, flags)) continue;
    rows.push_back({check, check.how(target)});
    if (live) {
      constexpr std::array kMarks = {'.', 'F', 's'};
      fmt::print("{}", kMarks[static_cast<size_t>(rows.back().result.outcome)]);
      std::fflush(stdout);
    }
  }
  if (rows.empty())
    return invalid_argument("--only names no check; expected numbers such as T03, or a letter of {}", "TQRSCEMP");
  if (live) {
    print_rows(rows);
    if (count_of(rows, 0, CheckOutcome::kFailed) > 0) {
      fmt::print(
          "\na server that plays a script (vernier serve script:FILE) may fail checks of what a model chooses\n");
    }
  } else {
    fmt::print("{}\n", rows_json(rows, target).dump(2, ' ', false, ordered_json::error_handler_t::replace));
  }
  const size_t failed = count_of(rows, 0, CheckOutcome::kFailed);
  if (failed > 0) return make_error(ErrorCode::kInternal, "{} of {} checks failed", failed, rows.size());
  return {};
}

}  // namespace

void add_selftest_command(CLI::App& app) {
  auto flags = std::make_shared<SelftestFlags>();
  CLI::App* command = app.add_subcommand("selftest", "Check any server against the rules of the OpenAI API");
  command->add_option("--url", flags->url, "Where the server listens, as in http://127.0.0.1:8080")->required();
  command->add_option("--model", flags->model, "Name sent as model (default: the first that the server lists)");
  command->add_option("--api-key", flags->api_key, "Key sent as bearer token");
  command->add_option("--only", flags->only, "Checks whose numbers begin so, as in T03,S")->delimiter(',');
  command->add_flag("--ours", flags->ours, "Also what is Vernier's own choice, and no server's duty");
  command->add_option("--timeout", flags->timeout_s, "Seconds to wait for one answer")->capture_default_str();
  set_work(*command, [flags] { return run_selftest(*flags); });
}

}  // namespace vernier
