#include "server/embeddings_route.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "base/clock.h"
#include "server/choice_sink.h"
#include "server/json_writer.h"
#include "server/request_feed.h"
#include "server/text_route.h"
#include "server/unique_id.h"

namespace vernier {
namespace {

constexpr size_t kMaxInputs = 2048;

static_assert(std::endian::native == std::endian::little, "base64 embeddings are little-endian float32");

struct EmbeddingOptions {
  bool as_base64 = false;
  std::optional<int64_t> dimensions;
};

/// Collects the vectors of one request and answers with the last of them.
class EmbeddingAnswer : public std::enable_shared_from_this<EmbeddingAnswer> {
 public:
  EmbeddingAnswer(const ServedModel& model, ServerMetrics& metrics, EmbeddingOptions options,
                  std::shared_ptr<ResponseStream> response, HeaderList headers)
      : model_(model),
        metrics_(metrics),
        options_(options),
        response_(std::move(response)),
        headers_(std::move(headers)),
        feed_(*model.engine) {}

  void start(std::vector<Request> requests);

 private:
  friend class ChoiceSink<EmbeddingAnswer>;

  void take(size_t index, RequestUpdate update);
  /// Lets more inputs into the engine.
  void feed();
  void end_with(const ApiError& error);
  void send_all();
  void write_vector(JsonWriter& json, std::span<const float> vector) const;

  const ServedModel& model_;
  ServerMetrics& metrics_;
  EmbeddingOptions options_;
  std::shared_ptr<ResponseStream> response_;
  HeaderList headers_;

  std::mutex mutex_;  // guards all below
  std::vector<std::vector<float>> vectors_;
  RequestFeed feed_;
  size_t open_ = 0;
  int64_t prompt_tokens_ = 0;
  bool ended_ = false;
};

void EmbeddingAnswer::start(std::vector<Request> requests) {
  {
    std::lock_guard lock(mutex_);
    vectors_.resize(requests.size());
    open_ = requests.size();
    for (const Request& request : requests) prompt_tokens_ += static_cast<int64_t>(request.prompt.size());
  }
  response_->on_gone([weak = weak_from_this()] {
    if (auto answer = weak.lock()) {
      std::lock_guard lock(answer->mutex_);
      if (answer->ended_) return;
      answer->metrics_.count_aborted();
      answer->end_with(ApiError::make(499, "the client went away"));
    }
  });
  std::lock_guard lock(mutex_);
  if (ended_) return;
  feed_.hold(std::move(requests));
  feed();
}

void EmbeddingAnswer::feed() {
  const Status fed = feed_.submit(
      [this](size_t index) { return std::make_shared<ChoiceSink<EmbeddingAnswer>>(shared_from_this(), index); });
  if (!fed.ok()) end_with(api_error(fed.error()));
}

void EmbeddingAnswer::end_with(const ApiError& error) {
  ended_ = true;
  feed_.cancel_all();
  response_->send(error.response());
}

/// Unit length; a vector of zeros stays as it is.
void scale_to_unit(std::vector<float>& vector) {
  double sum = 0;
  for (float x : vector) sum += static_cast<double>(x) * static_cast<double>(x);
  if (sum <= 0) return;
  const auto scale = static_cast<float>(1 / std::sqrt(sum));
  for (float& x : vector) x *= scale;
}

void EmbeddingAnswer::take(size_t index, RequestUpdate update) {
  std::lock_guard lock(mutex_);
  if (ended_) return;
  if (update.failed) {
    metrics_.count_failed();
    return end_with(api_error(*update.failed));
  }
  if (!update.finished) return;
  if (update.finished->reason == FinishReason::kCancelled) {
    return end_with(ApiError::make(503, "the server is going down", "shutting_down"));
  }
  vectors_[index] = std::move(update.embedding);
  const auto size = static_cast<int64_t>(vectors_[index].size());
  if (options_.dimensions && *options_.dimensions != size) {
    return end_with(
        ApiError::make(400,
                       fmt::format("dimensions is {}; this model's vectors have {} and were not made to be cut",
                                   *options_.dimensions, size),
                       "unsupported_parameter", "dimensions"));
  }
  scale_to_unit(vectors_[index]);
  feed_.ended(index);
  if (--open_ == 0) return send_all();
  feed();
}

void EmbeddingAnswer::write_vector(JsonWriter& json, std::span<const float> vector) const {
  if (options_.as_base64) {
    std::string bytes(vector.size_bytes(), '\0');
    std::memcpy(bytes.data(), vector.data(), bytes.size());
    json.text(base64(bytes));
    return;
  }
  json.begin_array();
  for (float x : vector) json.number(x);
  json.end_array();
}

void EmbeddingAnswer::send_all() {
  ended_ = true;
  std::string body;
  JsonWriter json(body);
  json.begin_object().text("object", "list").key("data").begin_array();
  for (size_t i = 0; i < vectors_.size(); ++i) {
    json.begin_object().text("object", "embedding").integer("index", static_cast<int64_t>(i)).key("embedding");
    write_vector(json, vectors_[i]);
    json.end_object();
  }
  json.end_array().text("model", model_.name()).key("usage").begin_object();
  json.integer("prompt_tokens", prompt_tokens_).integer("total_tokens", prompt_tokens_).end_object().end_object();
  metrics_.count_prompt(prompt_tokens_);
  HttpResponse response = HttpResponse::json(std::move(body));
  for (const auto& [name, value] : headers_) response.headers.add(name, value);
  response_->send(std::move(response));
}

Result<EmbeddingOptions> read_options(const Fields& fields) {
  EmbeddingOptions options;
  const std::string format = fields.text("encoding_format").value_or("float");
  if (format != "float" && format != "base64") {
    return bad_field("encoding_format", "encoding_format is '{}', expected float or base64", format.substr(0, 40));
  }
  options.as_base64 = format == "base64";
  options.dimensions = fields.integer("dimensions");
  return options;
}

Result<std::vector<Prompt>> read_inputs(const Fields& fields, const ServedModel& model) {
  const Json* input = fields.find("input");
  if (input == nullptr) return bad_field("input", "input is missing, expected text or token ids");
  if (*input == "") return bad_field("input", "input is an empty string");
  for (const Json& item : *input) {
    if (item == "") return bad_field("input", "input holds an empty string");
  }
  return read_prompts(model, *input, "input", {}, kMaxInputs);
}

}  // namespace

std::optional<ApiError> answer_embeddings(ApiContext& context, const HttpRequest& http,
                                          const std::shared_ptr<ResponseStream>& response) {
  const ServedModel& model = *context.model;
  auto body = read_json_body(http);
  if (!body.ok()) return request_error(body.error());
  auto fields = Fields::check(*body, kOnEmbeddings, context.options.strict_fields);
  if (!fields.ok()) return request_error(fields.error());
  if (Status known = check_model_name(*fields, model, true); !known.ok()) return request_error(known.error());
  auto options = read_options(*fields);
  if (!options.ok()) return request_error(options.error());
  if (model.script != nullptr) {
    return ApiError::make(400, "a scripted model has no states to embed with", "unsupported_parameter", "model");
  }
  auto prompts = read_inputs(*fields, model);
  if (!prompts.ok()) return request_error(prompts.error());
  GenerationSettings settings;
  settings.max_tokens = 0;
  settings.deadline_ns = request_deadline_ns(context, http);
  std::vector<Request> requests;
  for (const Prompt& prompt : *prompts) {
    if (auto refusal = check_context(model, settings, prompt.tokens.size(), "input")) return refusal;
    Request request = engine_request(model, settings, prompt, nullptr);
    request.kind = model.embedding;
    request.name = unique_id("embd-");
    request.fair_share_key = fair_share_key(http);
    requests.push_back(std::move(request));
  }
  auto answer =
      std::make_shared<EmbeddingAnswer>(model, *context.metrics, *options, response, ignored_header(fields->ignored()));
  answer->start(std::move(requests));
  return std::nullopt;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t three = 0;
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    for (size_t k = 0; k < 3; ++k) {
      three = three << 8 | (k < count ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    }
    for (size_t k = 0; k < 4; ++k) out += k <= count ? kAlphabet[three >> (18 - 6 * k) & 63U] : '=';
  }
  return out;
}

}  // namespace vernier
