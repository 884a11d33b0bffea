#include "server/model_routes.h"

#include <fmt/format.h>

#include "server/json_writer.h"

namespace vernier {
namespace {

void write_model(JsonWriter& json, const ServedModel& model, const std::string& name) {
  json.begin_object().text("id", name).text("object", "model").integer("created", model.created_unix_s);
  json.text("owned_by", "vernier").text("root", model.name()).null("parent");
  json.integer("max_model_len", model.context_tokens()).end_object();
}

/// Answers when the engine has.
class HealthSink : public RequestSink {
 public:
  explicit HealthSink(std::shared_ptr<ResponseStream> response) : response_(std::move(response)) {}
  void deliver(RequestUpdate update) override {
    if (update.failed) {
      response_->send(api_error(*update.failed).response());
    } else if (update.finished) {
      response_->send(HttpResponse::json("{\"status\":\"ok\"}"));
    }
  }

 private:
  std::shared_ptr<ResponseStream> response_;
};

}  // namespace

HttpResponse list_models(const ApiContext& context) {
  std::string body;
  JsonWriter json(body);
  json.begin_object().text("object", "list").key("data").begin_array();
  for (const std::string& name : context.model->names) write_model(json, *context.model, name);
  json.end_array().end_object();
  return HttpResponse::json(std::move(body));
}

HttpResponse show_model(const ApiContext& context, const std::string& id) {
  if (!context.model->answers_to(id)) {
    return ApiError::make(404,
                          fmt::format("the model '{}' does not exist here; this server has {}", id.substr(0, 200),
                                      context.model->name()),
                          "model_not_found", "model")
        .response();
  }
  std::string body;
  JsonWriter json(body);
  write_model(json, *context.model, id);
  return HttpResponse::json(std::move(body));
}

HttpResponse show_props(const ApiContext& context) {
  const ServedModel& model = *context.model;
  const EngineOptions& engine = model.engine->options();
  std::string body;
  JsonWriter json(body);
  json.begin_object().text("model", model.name()).text("version", context.options.version);
  json.text("system_fingerprint", model.fingerprint).integer("max_model_len", model.context_tokens());
  json.integer("vocabulary", model.vocabulary()).integer("total_slots", engine.max_sequences);
  json.integer("max_queue", engine.max_queue).integer("max_step_rows", engine.max_step_rows);
  json.boolean("prefix_cache", engine.prefix_cache).text("output_format", output_format_name(model.format));
  json.text("tool_format", output_format_name(model.tool_format));
  json.text("chat_template", model.chat_template != nullptr ? model.chat_template->source() : "");
  json.key("end_tokens").begin_array();
  for (int32_t token : model.end_tokens) json.integer(token);
  json.end_array().key("default_generation_settings").begin_object();
  json.integer("n_ctx", model.context_tokens()).key("temperature").number(model.sampling.temperature);
  json.integer("top_k", model.sampling.top_k)
      .key("top_p")
      .number(model.sampling.top_p)
      .key("min_p")
      .number(model.sampling.min_p);
  json.key("repetition_penalty").number(model.sampling.repetition_penalty).end_object().end_object();
  return HttpResponse::json(std::move(body));
}

HttpResponse show_version(const ApiContext& context) {
  std::string body;
  JsonWriter(body).begin_object().text("version", context.options.version).end_object();
  return HttpResponse::json(std::move(body));
}

HttpResponse show_health(const ApiContext& context, const HttpRequest& request) {
  if (request.draining) return ApiError::make(503, "the server is going down", "shutting_down").response();
  if (auto refusal = context.readiness.any_refusal()) return refusal->response();
  const std::chrono::nanoseconds limit = context.options.stalled_after, step(context.model->engine->stats().step_ns);
  if (limit.count() > 0 && step > limit) {
    return ApiError::make(503,
                          fmt::format("a step has not ended for {:.1f} s; the device may hang: restart the server",
                                      std::chrono::duration<double>(step).count()),
                          "stalled")
        .response();
  }
  return HttpResponse::json("{\"status\":\"ok\"}");
}

std::optional<ApiError> check_generation(ApiContext& context, const HttpRequest& http,
                                         const std::shared_ptr<ResponseStream>& response) {
  const ServedModel& model = *context.model;
  Prompt prompt;
  prompt.tokens = {0};
  GenerationSettings settings;
  settings.sampling.temperature = 0;
  settings.max_tokens = 1;
  settings.deadline_ns = request_deadline_ns(context, http);
  Request request = engine_request(model, settings, prompt, nullptr);
  request.name = "health";
  request.reuse_prefix = false;
  if (model.script != nullptr) {
    auto script = std::make_shared<ScriptedAnswer>();
    script->end_token = model.script->end_token();
    request.script = std::move(script);
  }
  auto id = model.engine->submit(std::move(request), std::make_shared<HealthSink>(response));
  return id.ok() ? std::nullopt : std::optional(api_error(id.error()));
}

}  // namespace vernier
