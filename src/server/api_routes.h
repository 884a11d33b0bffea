#pragma once

#include <memory>

#include "server/api_context.h"
#include "server/router.h"

namespace vernier {

/// The OpenAI API, the native routes beside it, health and metrics. The routes keep the context alive.
void add_api_routes(Router& router, const std::shared_ptr<ApiContext>& context);

}  // namespace vernier
