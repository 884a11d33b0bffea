#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/api_error.h"
#include "server/http_message.h"

namespace vernier {

/// Bytes of one HTTP/1 request to an HttpRequest. It holds what it took; the caller keeps what it did not take and
/// gives it again with more. Any bytes are safe to give.
class RequestParser {
 public:
  struct Limits {
    size_t header_bytes;
    size_t target_bytes;
    size_t body_bytes;
  };
  enum class State {
    kHeader,  ///< start line or fields are not all there
    kBody,    ///< they are; the body is not
    kDone,    ///< whole
    kFailed,  ///< see error(); the connection cannot go on
  };

  explicit RequestParser(const Limits& limits);
  ~RequestParser();

  /// Takes bytes from the front and says how many. Stops after the fields, so that a request can be refused before its
  /// body comes, and at the end of the request.
  size_t feed(std::string_view bytes);

  State state() const { return state_; }
  const ApiError& error() const { return *error_; }

  /// Method, path, query, fields; `raw_target` as it came. Whatever is known so far, so also after a failure.
  const HttpRequest& head() const { return request_; }
  const std::string& raw_path() const { return raw_path_; }
  uint64_t body_bytes() const { return body_bytes_; }  ///< that came
  std::optional<uint64_t> body_bytes_left() const;     ///< none: chunked
  bool expects_continue() const { return expects_continue_; }
  bool keep_alive() const { return keep_alive_; }
  bool http10() const { return http10_; }

  /// The request with its body. Once, when done.
  HttpRequest take();

 private:
  struct Parser;
  void fail(int status, std::string message, std::string code);
  bool within_limits(std::string_view bytes);
  void read_head();
  void read_target();
  std::optional<ApiError> field_error() const;

  Limits limits_;
  std::unique_ptr<Parser> parser_;
  State state_ = State::kHeader;
  std::optional<ApiError> error_;
  HttpRequest request_;
  std::string raw_path_;
  uint64_t body_bytes_ = 0;
  bool expects_continue_ = false;
  bool keep_alive_ = false;
  bool http10_ = false;
};

}  // namespace vernier
