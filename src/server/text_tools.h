#pragma once

#include "server/api_context.h"

namespace vernier {

/// POST /tokenize: a prompt, or messages through the template, as token ids.
std::optional<ApiError> tokenize(ApiContext& context, const HttpRequest& request,
                                 const std::shared_ptr<ResponseStream>& response);
/// POST /detokenize.
std::optional<ApiError> detokenize(ApiContext& context, const HttpRequest& request,
                                   const std::shared_ptr<ResponseStream>& response);
/// POST /apply-template: a chat request's prompt, with its token ids.
std::optional<ApiError> apply_template(ApiContext& context, const HttpRequest& request,
                                       const std::shared_ptr<ResponseStream>& response);
/// POST /abort_request: {"rid"} or {"abort_all": true}.
std::optional<ApiError> abort_request(ApiContext& context, const HttpRequest& request,
                                      const std::shared_ptr<ResponseStream>& response);

}  // namespace vernier
