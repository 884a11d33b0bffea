#pragma once

#include "server/api_context.h"

namespace vernier {

/// GET /v1/models: the model under each of its names.
HttpResponse list_models(const ApiContext& context);
/// GET /v1/models/{id}: one of them, or 404.
HttpResponse show_model(const ApiContext& context, const std::string& id);
/// GET /props: what there is to know of this server, of llama.cpp's names where they fit.
HttpResponse show_props(const ApiContext& context);
HttpResponse show_version(const ApiContext& context);
/// GET /health: ready, or 503 with the reason: loading, warming up, what the warm-up found broken, going down.
HttpResponse show_health(const ApiContext& context, const HttpRequest& request);
/// GET /health/generate: 200 once the engine has generated a token.
std::optional<ApiError> check_generation(ApiContext& context, const HttpRequest& http,
                                         const std::shared_ptr<ResponseStream>& response);

}  // namespace vernier
