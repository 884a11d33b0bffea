#pragma once

#include "server/api_context.h"

namespace vernier {

/// POST /v1/responses, without a store.
std::optional<ApiError> answer_responses(ApiContext& context, const HttpRequest& request,
                                         const std::shared_ptr<ResponseStream>& response);
/// What would concern a stored response: 404, and why.
ApiError no_stored_response(const std::string& id);

}  // namespace vernier
