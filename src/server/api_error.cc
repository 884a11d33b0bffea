#include "server/api_error.h"

#include "text/utf8.h"

namespace vernier {
namespace {

void append_or_null(std::string& out, const std::optional<std::string>& text) {
  if (text) {
    append_json_string(out, *text);
  } else {
    out += "null";
  }
}

std::string_view type_of(int status) {
  if (status == 429) return "rate_limit_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

}  // namespace

ApiError ApiError::make(int status, std::string message, std::optional<std::string> code,
                        std::optional<std::string> param) {
  ApiError error;
  error.status = status;
  error.message = std::move(message);
  error.type = type_of(status);
  error.param = std::move(param);
  error.code = std::move(code);
  if (status == 429 || status == 503) error.retry_after_seconds = 1;
  return error;
}

std::string ApiError::body() const {
  std::string out = R"({"error":{"message":)";
  append_json_string(out, message);
  out += R"(,"type":)";
  append_json_string(out, type);
  out += R"(,"param":)";
  append_or_null(out, param);
  out += R"(,"code":)";
  append_or_null(out, code);
  out += "}}";
  return out;
}

HttpResponse ApiError::response() const {
  HttpResponse response = HttpResponse::json(body(), status);
  if (retry_after_seconds >= 0) response.headers.set("Retry-After", std::to_string(retry_after_seconds));
  return response;
}

ApiError api_error(const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kCorrupt:
      return ApiError::make(400, error.message, "invalid_value");
    case ErrorCode::kUnsupported:
      return ApiError::make(400, error.message, "unsupported_parameter");
    case ErrorCode::kNotFound:
      return ApiError::make(404, error.message, "not_found");
    case ErrorCode::kOutOfMemory:
      return ApiError::make(503, "the request does not fit into the memory that is free now", "out_of_memory");
    case ErrorCode::kOverloaded:
      return ApiError::make(429, error.message, "rate_limit_exceeded");
    case ErrorCode::kTimeout:
      return ApiError::make(504, error.message, "timeout");
    case ErrorCode::kUnavailable:  // of the engine; see request_error for a request's field
      return ApiError::make(503, error.message, "shutting_down");
    case ErrorCode::kInternal:
      break;
  }
  return ApiError::make(500, "an internal error ended the request; the server's log names it", "internal_error");
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  size_t i = 0;
  while (i < text.size()) {
    auto byte = static_cast<unsigned char>(text[i]);
    if (byte == '"' || byte == '\\') {
      out += '\\';
      out += text[i++];
    } else if (byte < 0x20) {
      out += fmt::format("\\u{:04x}", byte);
      ++i;
    } else if (byte < 0x80) {
      out += text[i++];
    } else {
      Utf8Span span = scan_utf8(text, i);
      out.append(span.kind == Utf8Kind::kWhole ? text.substr(i, span.size_bytes) : kReplacementCharacter);
      i += span.size_bytes;
    }
  }
  out += '"';
}

}  // namespace vernier
