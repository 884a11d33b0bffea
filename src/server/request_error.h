#pragma once

#include <optional>
#include <string>

#include "server/api_error.h"
#include "server/generation_settings.h"

namespace vernier {

/// As api_error, of an Error whose `where` is the field at fault.
ApiError request_error(const Error& error);

/// A prompt and the tokens wanted after it must fit the context: context_length_exceeded names both numbers and
/// `field`.
std::optional<ApiError> check_context(const ServedModel& model, const GenerationSettings& settings,
                                      size_t prompt_tokens, std::string_view field);

}  // namespace vernier
