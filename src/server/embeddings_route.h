#pragma once

#include "server/api_context.h"

namespace vernier {

/// POST /v1/embeddings: the model's own final state, of one token or the mean of all, scaled to unit length.
std::optional<ApiError> answer_embeddings(ApiContext& context, const HttpRequest& request,
                                          const std::shared_ptr<ResponseStream>& response);

/// The standard alphabet, with padding.
std::string base64(std::string_view bytes);

}  // namespace vernier
