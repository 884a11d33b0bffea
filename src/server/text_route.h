#pragma once

#include "server/api_context.h"

namespace vernier {

/// POST /v1/completions.
std::optional<ApiError> answer_text(ApiContext& context, const HttpRequest& request,
                                    const std::shared_ptr<ResponseStream>& response);
/// POST /generate, with SGLang's body.
std::optional<ApiError> answer_generate(ApiContext& context, const HttpRequest& request,
                                        const std::shared_ptr<ResponseStream>& response);

/// A string, an array of strings, of token ids, or of arrays of token ids, as prompts; at most `limit`.
Result<std::vector<Prompt>> read_prompts(const ServedModel& model, const Json& value, const std::string& place,
                                         const TextPromptOptions& options, size_t limit);

}  // namespace vernier
