#include "server/api_context.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "text/vocabulary.h"

namespace vernier {
namespace {

/// For each field once: a client that sends one sends it with every request. Its names are the client's to choose, so
/// there is an end to them.
void warn_once(const std::string& field) {
  constexpr size_t kMostNames = 100;
  static std::mutex mutex;
  static std::set<std::string> told;
  {
    std::lock_guard lock(mutex);
    if (told.size() >= kMostNames || !told.insert(field).second) return;
  }
  log_warning("requests have the field {}, which changes nothing here (told once)", field);
}

}  // namespace

void RunningAnswers::add(const std::shared_ptr<Answer>& answer) {
  std::lock_guard lock(mutex_);
  answers_[answer->id()] = answer;
  if (answers_.size() < purge_at_) return;
  std::erase_if(answers_, [](const auto& entry) { return entry.second.expired(); });
  purge_at_ = std::max<size_t>(64, 2 * answers_.size());
}

size_t RunningAnswers::abort(const std::string& id) {
  std::shared_ptr<Answer> answer;
  {
    std::lock_guard lock(mutex_);
    const auto found = answers_.find(id);
    if (found != answers_.end()) answer = found->second.lock();
  }
  return answer != nullptr && answer->abort() ? 1 : 0;
}

size_t RunningAnswers::abort_all() {
  std::vector<std::shared_ptr<Answer>> answers;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, weak] : answers_) {
      if (auto answer = weak.lock()) answers.push_back(std::move(answer));
    }
  }
  return static_cast<size_t>(std::ranges::count_if(answers, [](const auto& answer) { return answer->abort(); }));
}

RouteFunction as_route(RouteWork work) {
  return [work = std::move(work)](HttpRequest request, std::shared_ptr<ResponseStream> response) {
    if (auto refusal = work(request, response)) EventStream(response).fail(*refusal);
  };
}

Result<Json> read_json_body(const HttpRequest& request) {
  const std::string_view type = request.headers.get("Content-Type");
  const std::string_view kind = type.substr(0, type.find_first_of("; "));
  if (!kind.empty() && !equal_ignoring_case(kind, "application/json")) {
    return invalid_argument(
        "the content type is '{}', expected application/json; with curl add -H 'Content-Type: application/json'",
        kind.substr(0, 80));
  }
  return parse_body(request.body);
}

HeaderList ignored_header(const std::vector<std::string>& ignored) {
  HeaderList headers;
  if (ignored.empty()) return headers;
  std::string names;
  for (const std::string& name : ignored) {
    if (names.size() > 1000) break;
    std::string shown;
    for (char c : name.substr(0, 80)) shown += c > ' ' && c < 0x7F && c != ',' ? c : '?';
    warn_once(shown);
    if (!names.empty()) names += ", ";
    names += shown;
  }
  headers.add("x-ignored-params", names);
  return headers;
}

Request engine_request(const ServedModel& model, const GenerationSettings& settings, const Prompt& prompt,
                       std::shared_ptr<const CompiledGrammar> grammar) {
  Request request;
  request.name = settings.request_id;
  request.prompt = prompt.tokens;
  request.sampling = settings.sampling;
  const int32_t rest = model.context_tokens() - static_cast<int32_t>(prompt.tokens.size());
  request.max_tokens = settings.max_tokens.value_or(std::min(rest, settings.default_max_tokens));
  request.min_tokens = settings.min_tokens;
  if (!settings.ignore_end_tokens) request.end_tokens = model.end_tokens;
  request.end_tokens.insert(request.end_tokens.end(), settings.stop_tokens.begin(), settings.stop_tokens.end());
  request.top_logprobs = settings.top_logprobs;
  request.prompt_logprobs = settings.prompt_logprobs;
  // A script is drawn with probability 1, whatever a grammar would say.
  if (prompt.script == nullptr) request.grammar = std::move(grammar);
  request.script = prompt.script;
  request.priority = settings.priority;
  request.cache_salt = settings.cache_salt;
  request.deadline_ns = settings.deadline_ns;
  return request;
}

uint64_t fair_share_key(const HttpRequest& request) {
  std::string_view key = request.headers.get("Authorization");
  if (key.empty()) key = request.headers.get("x-api-key");
  return key.empty() ? 0 : fmix64(hash_text(key));
}

std::optional<int64_t> request_deadline_ns(const ApiContext& context, const HttpRequest& request) {
  const int64_t limit_ns = context.options.request_timeout.count();
  if (limit_ns <= 0) return std::nullopt;
  return (request.received_ns > 0 ? request.received_ns : monotonic_ns()) + limit_ns;
}

int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace vernier
