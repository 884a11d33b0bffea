#include "server/request_parser.h"

#include <algorithm>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <charconv>

#include "base/check.h"

namespace vernier {
namespace {

namespace http = boost::beast::http;
using boost::beast::error_code;

/// Room for the method and version beside the target.
constexpr size_t kStartLineRest = 64;

std::string_view view(boost::beast::string_view text) {
  return {text.data(), text.size()};
}

bool declared_too_long(const HeaderList& fields, size_t limit) {
  const std::string_view text = fields.get("Content-Length");
  uint64_t length = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
  return error == std::errc() && end == text.data() + text.size() && length > limit;
}

/// Whether a line ends with LF alone, up to the first empty one. Where lines may end two ways, two servers may disagree
/// about the end of a request.
bool has_bare_line_feed(std::string_view bytes) {
  size_t begin = 0;
  for (size_t at = bytes.find('\n'); at != std::string_view::npos; at = bytes.find('\n', begin)) {
    if (at == 0 || bytes[at - 1] != '\r') return true;
    if (at == begin + 1) return false;
    begin = at + 1;
  }
  return false;
}

/// "HTTP/9.9" at the end of the first line.
bool names_a_version(std::string_view bytes) {
  const std::string_view line = bytes.substr(0, bytes.find("\r\n"));
  const std::string_view version = line.substr(line.find_last_of(' ') + 1);
  auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return version.size() == 8 && version.starts_with("HTTP/") && digit(version[5]) && version[6] == '.' &&
         digit(version[7]);
}

}  // namespace

struct RequestParser::Parser {
  http::request_parser<http::string_body> beast;
  bool started = false;
  bool in_fields = false;  // the first line was taken
};

RequestParser::RequestParser(const Limits& limits) : limits_(limits), parser_(std::make_unique<Parser>()) {
  parser_->beast.header_limit(static_cast<uint32_t>(std::min<size_t>(limits.header_bytes, UINT32_MAX)));
  parser_->beast.body_limit(limits.body_bytes);
}

RequestParser::~RequestParser() = default;

void RequestParser::fail(int status, std::string message, std::string code) {
  state_ = State::kFailed;
  keep_alive_ = false;
  error_ = ApiError::make(status, std::move(message), std::move(code));
}

// What Beast would report less exactly, or not at all.
bool RequestParser::within_limits(std::string_view bytes) {
  if (state_ != State::kHeader) return true;
  size_t line = std::min(bytes.find('\n'), bytes.size());
  if (!parser_->in_fields && line > limits_.target_bytes + kStartLineRest) {
    fail(414, fmt::format("the request's target is longer than {} bytes", limits_.target_bytes), "uri_too_long");
    return false;
  }
  if (has_bare_line_feed(bytes)) {
    fail(400, "a line of the request's head ends with LF alone, expected CR LF", "malformed_request");
    return false;
  }
  return true;
}

size_t RequestParser::feed(std::string_view bytes) {
  size_t taken = 0;
  if (state_ == State::kHeader && !parser_->started) {
    // RFC 9112 2.2: empty lines before a request are skipped.
    while (taken < bytes.size() && (bytes[taken] == '\r' || bytes[taken] == '\n')) ++taken;
    bytes.remove_prefix(taken);
    if (bytes.empty()) return taken;
  }
  if (state_ == State::kDone || state_ == State::kFailed || !within_limits(bytes)) return taken;
  parser_->started = true;
  auto& beast = parser_->beast;
  error_code ec;
  size_t took = beast.put(boost::asio::const_buffer(bytes.data(), bytes.size()), ec);
  taken += took;
  if (state_ == State::kBody) body_bytes_ += took;
  parser_->in_fields = parser_->in_fields || took > 0;
  if (ec && ec != http::error::need_more) {
    read_head();
    if (ec == http::error::header_limit) {
      fail(431, fmt::format("the header fields are longer than {} bytes", limits_.header_bytes), "header_too_large");
    } else if (ec == http::error::body_limit || ec == http::error::buffer_overflow) {
      fail(413, fmt::format("the body is longer than {} bytes", limits_.body_bytes), "request_too_large");
    } else if (declared_too_long(request_.headers, limits_.body_bytes)) {
      // Two lengths that differ: whichever holds, the first is refused as it comes, like a length that stands alone.
      fail(413, fmt::format("the body is longer than {} bytes", limits_.body_bytes), "request_too_large");
    } else if (ec == http::error::bad_version && names_a_version(bytes)) {
      fail(505, "the HTTP version is neither 1.0 nor 1.1", "http_version_not_supported");
    } else {
      fail(400, "the request is no valid HTTP: " + ec.message(), "malformed_request");
    }
    return taken;
  }
  if (state_ == State::kHeader && beast.is_header_done()) {
    read_head();
    if (std::optional<ApiError> error = field_error()) {
      fail(error->status, error->message, error->code.value_or(""));
      return taken;
    }
    state_ = State::kBody;
    beast.eager(true);
  }
  if (beast.is_done()) {
    state_ = State::kDone;
  } else if (took == 0 && state_ == State::kBody && beast.chunked() &&
             has_bare_line_feed(bytes.substr(bytes.starts_with("\r\n") ? 2 : 0))) {
    fail(400, "a chunk's size line or trailer ends with LF alone, expected CR LF", "malformed_request");
  } else if (took == 0 && bytes.size() > limits_.header_bytes) {
    fail(400, "a chunk's size line or trailer does not end", "malformed_request");
  }
  return taken;
}

void RequestParser::read_head() {
  const auto& message = parser_->beast.get();
  if (message.method_string().empty()) return;
  request_.method = std::string(view(message.method_string()));
  HeaderList fields;
  for (const auto& field : message)
    fields.add(std::string(view(field.name_string())), std::string(view(field.value())));
  request_.headers = std::move(fields);
  http10_ = message.version() < 11;
  read_target();
  if (!parser_->beast.is_header_done()) return;
  keep_alive_ = parser_->beast.keep_alive();
  expects_continue_ = !http10_ && equal_ignoring_case(request_.headers.get("Expect"), "100-continue");
}

// "/path?query", "http://server.example/path?query" or "*" to the path and the query.
void RequestParser::read_target() {
  std::string target(view(parser_->beast.get().target()));
  size_t scheme = target.find("://");
  if (!target.starts_with('/') && scheme != std::string::npos) {
    size_t path = target.find('/', scheme + 3);
    target = path == std::string::npos ? "/" : target.substr(path);
  }
  target = target.substr(0, target.find('#'));
  size_t question = std::min(target.find('?'), target.size());
  raw_path_ = target.substr(0, question);
  request_.path = percent_decoded(raw_path_).value_or(raw_path_);
  request_.query = parsed_query(target.substr(std::min(target.size(), question + 1))).value_or(NamedValues());
}

std::optional<ApiError> RequestParser::field_error() const {
  auto malformed = [](std::string message) { return ApiError::make(400, std::move(message), "malformed_request"); };
  if (!raw_path_.starts_with('/') && raw_path_ != "*") return malformed("the request's target is no path");
  std::string_view target = view(parser_->beast.get().target());
  size_t question = std::min(target.find('?'), target.size());
  std::optional<std::string> path = percent_decoded(raw_path_);
  if (!path || !parsed_query(target.substr(std::min(target.size(), question + 1)))) {
    return malformed("a %-escape of the request's target is broken");
  }
  if (path->find('\0') != std::string::npos) return malformed("the path holds a NUL");
  size_t hosts = request_.headers.count("Host");
  if (hosts > 1 || (hosts == 0 && !http10_)) return malformed("a request has one Host field");
  if (request_.headers.count("Transfer-Encoding") > 0) {
    // Anything but one plain "chunked" is where two servers may disagree about the end of a request.
    if (http10_ || !equal_ignoring_case(request_.headers.get("Transfer-Encoding"), "chunked") ||
        request_.headers.count("Transfer-Encoding") > 1 || request_.headers.count("Content-Length") > 0) {
      return malformed("of transfer codings only 'chunked' is taken, and not beside Content-Length");
    }
  }
  if (const std::string* expect = request_.headers.find("Expect"); expect && !expects_continue_ && !http10_) {
    return ApiError::make(417, "of expectations only 100-continue can be met", "expectation_failed");
  }
  return std::nullopt;
}

std::optional<uint64_t> RequestParser::body_bytes_left() const {
  if (state_ != State::kBody) return 0;
  if (parser_->beast.chunked()) return std::nullopt;
  boost::optional<uint64_t> left = parser_->beast.content_length_remaining();
  return left ? std::optional<uint64_t>(*left) : std::optional<uint64_t>(0);
}

HttpRequest RequestParser::take() {
  CHECK(state_ == State::kDone, "a request is taken before it is whole");
  request_.body = std::move(parser_->beast.get().body());
  return std::move(request_);
}

}  // namespace vernier
