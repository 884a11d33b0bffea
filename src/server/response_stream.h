#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "server/http_message.h"

namespace vernier {

/// What became of bytes given to a stream.
enum class WriteState {
  kTaken,   ///< they will be sent
  kFull,    ///< they will be sent, but the client lags: more than the bound waits. One that can should pause
  kClosed,  ///< they were dropped: the client has gone, or the answer had ended before
};

/// A part of an answer's wall time.
struct TimePart {
  std::string_view name;  ///< a literal
  int64_t ns = 0;
};

/// The answer to one request, given whole by `send`, or in pieces by `begin`, `write`, `finish`; at once or later, from
/// any thread, under a shared pointer. Calls do not wait for the client. Dropping the last pointer to an answer that
/// has not ended ends it with an error (500, or an error event), so that no client waits for ever.
///
/// A stream's status and fields are held back until its first byte, or until the client has waited for as long as a
/// keep-alive comment takes: until then `send` may still replace them, so that a failure of the first step keeps its
/// real status. A stream whose content type is text/event-stream is kept alive with comments while it is silent.
class ResponseStream {
 public:
  virtual ~ResponseStream() = default;

  /// The whole answer. False if nothing was sent since the answer is under way, has ended, or the client has gone.
  virtual bool send(HttpResponse response) = 0;

  /// Announces an answer in pieces. False as for `send`.
  virtual bool begin(int status, HeaderList headers) = 0;

  /// The next bytes, in the order of the calls; whole events, for an event stream. What is given in one call goes into
  /// one chunk, and what is given before the connection is free again joins it. kClosed before `begin`.
  virtual WriteState write(std::string_view bytes) = 0;

  /// The end, after all that was written. Later calls change nothing.
  virtual void finish() = 0;

  /// Whether the client has gone, or was given up for reading too slowly. True also if it only closed its sending side.
  virtual bool gone() const = 0;

  /// Calls `callback` once if the client goes before the answer has ended, and never after `finish` or `send`: the
  /// place to cancel work. At once in the calling thread if it has gone already; else on an I/O thread, so it must
  /// not wait. Replaces an earlier callback.
  virtual void on_gone(std::function<void()> callback) = 0;

  /// Where its time went until now, since its request was received: for the log, which adds the client's part.
  virtual void account(std::vector<TimePart> parts) = 0;
  /// `account` follows even where the client leaves before: the log waits for it.
  virtual void owe_account() = 0;

  virtual const std::string& request_id() const = 0;
};

}  // namespace vernier
