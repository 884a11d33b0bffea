#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "server/api_error.h"
#include "server/response_stream.h"

namespace vernier {

/// Server-sent events over a ResponseStream: `data: JSON`, a blank line, and `data: [DONE]` at the end. Events added
/// before `flush` go out in one write, as the events of one step should. One thread at a time.
class EventStream {
 public:
  explicit EventStream(std::shared_ptr<ResponseStream> response) : response_(std::move(response)) {}

  /// Announces the stream with the fields that keep proxies from holding it back, and `more`.
  bool begin(HeaderList more = {});

  /// `json` must be one line; it is the caller's valid UTF-8.
  void add(std::string_view json);
  /// An event with a name, as the Responses API has them.
  void add_named(std::string_view event, std::string_view json);
  WriteState flush();

  /// What was added, [DONE], the end.
  void done();
  /// The end without [DONE], as the Responses API has it.
  void end();
  /// The error: under its own status if no byte has gone out, and what was added but not flushed is dropped then;
  /// else as an event, then [DONE].
  void fail(const ApiError& error);

  ResponseStream& response() { return *response_; }

 private:
  std::shared_ptr<ResponseStream> response_;
  std::string batch_;
};

}  // namespace vernier
