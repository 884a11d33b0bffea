#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "server/http_message.h"

namespace vernier {

/// OpenAI's error object with the status it is sent under. `message` must name no path of this machine.
struct ApiError {
  int status = 500;
  std::string message;
  std::string type = "invalid_request_error";
  std::optional<std::string> param;  ///< the field at fault, "messages[0].role"
  std::optional<std::string> code;   ///< "model_not_found", "rate_limit_exceeded", ...
  int retry_after_seconds = -1;      ///< not negative: sent as Retry-After

  /// The type follows the status: 401 and other 4xx invalid_request_error, 429 rate_limit_error, 5xx server_error.
  static ApiError make(int status, std::string message, std::optional<std::string> code = {},
                       std::optional<std::string> param = {});

  /// {"error":{"message":...,"type":...,"param":...,"code":...}}, always all four keys.
  std::string body() const;
  HttpResponse response() const;
};

/// What an Error means to a client: 400, 404, 503, ... An internal failure is told by its code alone; log the error.
ApiError api_error(const Error& error);

/// Appends `text` as a JSON string with its quotes. Bytes that are no UTF-8 become U+FFFD.
void append_json_string(std::string& out, std::string_view text);

}  // namespace vernier
