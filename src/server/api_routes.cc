#include "server/api_routes.h"

#include <fmt/format.h>

#include "server/chat_route.h"
#include "server/embeddings_route.h"
#include "server/model_routes.h"
#include "server/responses_route.h"
#include "server/text_route.h"
#include "server/text_tools.h"

namespace vernier {
namespace {

using Work = std::optional<ApiError> (*)(ApiContext&, const HttpRequest&, const std::shared_ptr<ResponseStream>&);

/// Under /v1 and without, with a slash behind and without: clients are set up with any of the four as their base.
void add_everywhere(Router& router, const std::string& method, const std::string& path, const RouteFunction& run) {
  for (const char* prefix : {"/v1", ""}) {
    for (const char* end : {"", "/"}) router.add(method, prefix + path + end, Access::kKey, run);
  }
}

/// Why this model never does it, whatever state it is in.
std::optional<ApiError> never_does(const ServedModel& model, std::optional<Capability> needed) {
  if (model.generates || needed != Capability::kGeneration) return std::nullopt;
  return ApiError::make(
      400,
      fmt::format("{} is an encoder: it makes embeddings (POST /v1/embeddings) and generates no text", model.name()),
      "unsupported_parameter", "model");
}

/// Refused while the model cannot do it: see Readiness.
RouteFunction bound(const std::shared_ptr<ApiContext>& context, Work work, std::optional<Capability> needs = {}) {
  return as_route([context, work, needs](const HttpRequest& request, const std::shared_ptr<ResponseStream>& response) {
    auto refusal = needs ? context->readiness.refusal(*needs) : context->readiness.refusal();
    if (!refusal) refusal = never_does(*context->model, needs);
    return refusal ? refusal : work(*context, request, response);
  });
}

/// An answer that the model's facts give at once.
template <class Show>
RouteFunction shown(const std::shared_ptr<ApiContext>& context, Show show) {
  return as_route([context, show](const HttpRequest& request,
                                  const std::shared_ptr<ResponseStream>& response) -> std::optional<ApiError> {
    if (auto refusal = context->readiness.refusal()) return refusal;
    response->send(show(*context, request));
    return std::nullopt;
  });
}

void add_facts(Router& router, const std::shared_ptr<ApiContext>& context) {
  const RouteFunction list =
      shown(context, [](const ApiContext& shared, const HttpRequest&) { return list_models(shared); });
  const RouteFunction show = shown(context, [](const ApiContext& shared, const HttpRequest& request) {
    return show_model(shared, std::string(find_value(request.params, "id").value_or("")));
  });
  add_everywhere(router, "GET", "/models", list);
  router.get("/v1/models/{id...}", show).get("/models/{id...}", show);
  router.get("/props", shown(context, [](const ApiContext& shared, const HttpRequest&) { return show_props(shared); }));
  router.get("/version", [context](HttpRequest, std::shared_ptr<ResponseStream> response) {
    response->send(show_version(*context));
  });
  router.get("/metrics", [context](HttpRequest, std::shared_ptr<ResponseStream> response) {
    HttpResponse answer = HttpResponse::text(context->registry.exposition());
    answer.headers.set("Content-Type", std::string(MetricRegistry::kContentType));
    response->send(std::move(answer));
  });
}

void add_health(Router& router, const std::shared_ptr<ApiContext>& context) {
  const RouteFunction health = [context](HttpRequest request, std::shared_ptr<ResponseStream> response) {
    response->send(show_health(*context, request));
  };
  const RouteFunction live = [](HttpRequest, std::shared_ptr<ResponseStream> response) {
    response->send(HttpResponse::json("{\"status\":\"ok\"}"));
  };
  const RouteFunction generates = bound(context, check_generation, Capability::kGeneration);
  for (const char* path : {"/health", "/health/ready", "/ping"}) router.add("GET", path, Access::kOpen, health);
  for (const char* path : {"/live", "/health/live"}) router.add("GET", path, Access::kOpen, live);
  for (const char* path : {"/health/generate", "/health_generate"}) router.add("GET", path, Access::kOpen, generates);
}

}  // namespace

void add_api_routes(Router& router, const std::shared_ptr<ApiContext>& context) {
  add_everywhere(router, "POST", "/chat/completions", bound(context, answer_chat, Capability::kGeneration));
  add_everywhere(router, "POST", "/completions", bound(context, answer_text, Capability::kGeneration));
  add_everywhere(router, "POST", "/embeddings", bound(context, answer_embeddings, Capability::kEmbeddings));
  add_everywhere(router, "POST", "/responses", bound(context, answer_responses, Capability::kGeneration));
  const RouteFunction not_stored = as_route([](const HttpRequest& request, const std::shared_ptr<ResponseStream>&) {
    return std::optional(no_stored_response(std::string(find_value(request.params, "id").value_or(""))));
  });
  router.get("/v1/responses/{id...}", not_stored).post("/v1/responses/{id...}", not_stored);
  router.add("DELETE", "/v1/responses/{id...}", Access::kKey, not_stored);
  add_everywhere(router, "POST", "/tokenize", bound(context, tokenize));
  add_everywhere(router, "POST", "/detokenize", bound(context, detokenize));
  router.post("/generate", bound(context, answer_generate, Capability::kGeneration));
  router.post("/apply-template", bound(context, apply_template));
  router.post("/abort_request", bound(context, abort_request));
  router.add("POST", "/flush_cache", Access::kAdmin, shown(context, [](const ApiContext& shared, const HttpRequest&) {
               shared.model->engine->flush_cache();
               return HttpResponse::json("{\"flushed\":true}");
             }));
  add_facts(router, context);
  add_health(router, context);
}

}  // namespace vernier
