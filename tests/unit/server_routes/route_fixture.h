#pragma once

#include <chrono>
#include <condition_variable>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/scripted_step_runner.h"
#include "server/api_routes.h"

namespace vernier::testing {

/// A client's end of one answer, without a socket.
class RecordedAnswer : public ResponseStream {
 public:
  bool send(HttpResponse response) override {
    std::lock_guard lock(mutex_);
    if (ended_ || !body_.empty()) return false;
    status_ = response.status;
    headers_ = response.headers;
    body_ = response.body;
    end();
    return true;
  }
  bool begin(int status, HeaderList headers) override {
    std::lock_guard lock(mutex_);
    if (ended_ || begun_) return false;
    begun_ = true;
    status_ = status;
    headers_ = std::move(headers);
    return true;
  }
  WriteState write(std::string_view bytes) override {
    std::lock_guard lock(mutex_);
    if (ended_ || gone_) return WriteState::kClosed;
    body_ += bytes;
    return WriteState::kTaken;
  }
  void finish() override {
    std::lock_guard lock(mutex_);
    end();
  }
  bool gone() const override { return gone_; }
  void on_gone(std::function<void()> callback) override { on_gone_ = std::move(callback); }
  void account(std::vector<TimePart> parts) override { parts_ = std::move(parts); }
  void owe_account() override {}
  const std::string& request_id() const override { return id_; }

  /// The client closes its socket.
  void leave() {
    gone_ = true;
    on_gone_();
  }
  /// Whether the answer ended in time.
  bool wait() {
    std::unique_lock lock(mutex_);
    return ended_signal_.wait_for(lock, std::chrono::seconds(20), [&] { return ended_; });
  }
  int status() const { return status_; }
  const HeaderList& headers() const { return headers_; }
  const std::vector<TimePart>& time_parts() const { return parts_; }
  const std::string& body() const { return body_; }
  nlohmann::json json() const { return nlohmann::json::parse(body_); }

  /// The data of its events, without [DONE].
  std::vector<nlohmann::json> events() const {
    std::vector<nlohmann::json> events;
    size_t at = 0;
    while ((at = body_.find("data: ", at)) != std::string::npos) {
      const std::string data = body_.substr(at + 6, body_.find('\n', at) - at - 6);
      if (data != "[DONE]") events.push_back(nlohmann::json::parse(data));
      at += 6;
    }
    return events;
  }

 private:
  void end() {
    ended_ = true;
    ended_signal_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable ended_signal_;
  std::function<void()> on_gone_ = [] {};
  std::string id_ = "request";
  HeaderList headers_;
  std::vector<TimePart> parts_;
  std::string body_;
  int status_ = 0;
  bool begun_ = false, ended_ = false;
  std::atomic<bool> gone_ = false;
};

inline std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A scripted model behind a real engine and the real routes.
class RouteFixture {
 public:
  static constexpr const char* kTemplate =
      "{% for m in messages %}{% if m.role == 'system' and not loop.first %}"
      "{{ raise_exception('a system message comes first') }}{% endif %}<|im_start|>{{ m.role }}\n{{ m.content "
      "}}<|im_end|>\n{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

  using MakeRunner = std::function<std::unique_ptr<StepRunner>(int32_t vocab)>;
  explicit RouteFixture(
      const std::string& script, bool strict = false, EngineOptions engine = small_engine(),
      const MakeRunner& runner = [](int32_t vocab) { return std::make_unique<ScriptedStepRunner>(vocab, 4096); }) {
    const Tokenizer base =
        Tokenizer::from_json(file_text(std::string(VERNIER_TEST_DATA) + "/tokenizers/mini-merges.json")).value();
    auto scripted =
        std::make_shared<const ScriptedModel>(ScriptedModel::make(ScriptFile::parse(script).value(), base).value());
    auto model = std::make_shared<ServedModel>();
    model->names = {"tiny", "tiny-alias"};
    model->fingerprint = "fp_test";
    model->script = scripted;
    model->tokenizer = std::shared_ptr<const Tokenizer>(scripted, &scripted->tokenizer());
    model->end_tokens = scripted->stop_tokens();
    model->format = model->tool_format = scripted->format();
    model->chat_template = std::make_shared<const ChatTemplate>(ChatTemplate::parse(kTemplate).value());
    const auto vocab = static_cast<int32_t>(scripted->tokenizer().vocabulary_size());
    model->engine = Engine::start(runner(vocab), engine).value();
    model_ = model;
    metrics_ = std::make_unique<ServerMetrics>(registry_, *model_, true);
    ApiOptions options;
    options.strict_fields = strict;
    options.version = "0";
    context_ = std::make_shared<ApiContext>(model_, options, registry_, metrics_.get());
    add_api_routes(router_, context_);
  }

  static EngineOptions small_engine() {
    EngineOptions options;
    options.context_tokens = 1024;
    return options;
  }

  /// Starts a request and does not wait.
  std::shared_ptr<RecordedAnswer> open(const std::string& method, const std::string& path, const std::string& body,
                                       int64_t received_ns = 0) {
    auto answer = std::make_shared<RecordedAnswer>();
    HttpRequest request;
    request.method = method;
    request.path = path;
    request.body = body;
    request.received_ns = received_ns;
    request.headers.add("Content-Type", "application/json");
    const Router::Match match = router_.find(method, path);
    if (match.route == nullptr) {
      answer->send(ApiError::make(404, "no such route").response());
      return answer;
    }
    request.params = match.params;
    match.route->run(std::move(request), answer);
    return answer;
  }
  std::shared_ptr<RecordedAnswer> ask(const std::string& method, const std::string& path, const std::string& body) {
    auto answer = open(method, path, body);
    answer->wait();
    return answer;
  }
  std::shared_ptr<RecordedAnswer> post(const std::string& path, const nlohmann::json& body) {
    return ask("POST", path, body.dump());
  }
  /// A chat of one user message, with `more` fields.
  std::shared_ptr<RecordedAnswer> chat(const std::string& text, nlohmann::json more = nlohmann::json::object()) {
    nlohmann::json body = {
        {"model", "tiny"}, {"messages", {{{"role", "user"}, {"content", text}}}}, {"max_tokens", 64}};
    body.update(more);
    return post("/v1/chat/completions", body);
  }

  const ServedModel& model() const { return *model_; }
  ApiContext& context() { return *context_; }
  std::string metrics() { return registry_.exposition(); }

 private:
  MetricRegistry registry_;
  std::unique_ptr<ServerMetrics> metrics_;
  std::shared_ptr<const ServedModel> model_;  // before the metrics: its engine delivers to the end
  std::shared_ptr<ApiContext> context_;
  Router router_;
};

}  // namespace vernier::testing
