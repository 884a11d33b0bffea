#include "server/request_error.h"

#include <fmt/format.h>

namespace vernier {

ApiError request_error(const Error& error) {
  ApiError refusal = api_error(error);
  // What a field asks for may be out of reach now, such as a grammar that is still compiled, while the server is well.
  if (error.code == ErrorCode::kUnavailable && !error.where.empty()) {
    refusal.code = "not_ready";
    refusal.param = error.where;
  }
  if (refusal.status >= 500) return refusal;
  if (!error.where.empty()) refusal.param = error.where;
  if (error.code == ErrorCode::kNotFound) refusal.code = "model_not_found";
  return refusal;
}

std::optional<ApiError> check_context(const ServedModel& model, const GenerationSettings& settings,
                                      size_t prompt_tokens, std::string_view field) {
  const auto context = static_cast<size_t>(model.context_tokens());
  const auto wanted = static_cast<size_t>(settings.max_tokens.value_or(1));
  if (prompt_tokens + wanted <= context) return std::nullopt;
  std::string message = fmt::format("the prompt has {} tokens; this model's context holds {}", prompt_tokens, context);
  if (!settings.max_tokens) {
    message += ", one of them for the answer";
  } else if (wanted > 0) {
    message =
        fmt::format("the prompt has {} tokens and {} asks for {} more, {} together; this model's context holds {}",
                    prompt_tokens, settings.max_tokens_field, wanted, prompt_tokens + wanted, context);
  }
  return ApiError::make(400, std::move(message), "context_length_exceeded", std::string(field));
}

}  // namespace vernier
