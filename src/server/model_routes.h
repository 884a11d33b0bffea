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
/// GET /health: ready, or 503 while the server goes down.
HttpResponse show_health(const HttpRequest& request);
/// GET /health/generate: 200 once the engine has generated a token.
void check_generation(ApiContext& context, const std::shared_ptr<ResponseStream>& response);

}  // namespace vernier
