#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace vernier {

/// The status line and the fields of an answer.
struct ReplyHead {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> fields;  ///< names in lower case, in the order they came

  /// The first field of that name (in lower case); null where there is none.
  const std::string* find(std::string_view name) const;
  std::string get(std::string_view name) const;
};

/// Takes decoded bytes of a body as they come; false: enough, hang up.
using BodySink = std::function<bool(std::string_view)>;

/// Bytes of one HTTP/1.1 answer, split anywhere, to its head and its body. Skips interim (1xx) answers. Refuses what it
/// cannot be sure of: two lengths that differ, a chunk without its size, a head above 64 KiB.
class ReplyParser {
 public:
  /// The answer to HEAD has no body, whatever its fields say.
  explicit ReplyParser(bool to_head = false) : to_head_(to_head) {}

  /// How many of the bytes belong to this answer; fewer than given only when it is done or the sink had enough.
  Result<size_t> feed(std::string_view bytes, const BodySink& sink);
  /// The server closed. Success only where that ends the answer.
  Status close();

  bool head_done() const { return state_ != State::kHead; }
  bool done() const { return state_ == State::kDone; }
  bool stopped() const { return stopped_; }  ///< the sink had enough
  const ReplyHead& head() const { return head_; }
  /// Whether the connection may carry another request after this answer.
  bool keep_alive() const { return done() && keep_alive_; }

 private:
  enum class State { kHead, kSized, kChunkSize, kChunk, kChunkEnd, kTrailer, kUntilClose, kDone };

  Result<bool> take_line(std::string_view& bytes);
  Status take_field(std::string_view line);
  Status end_head();
  Status end_line();
  Status chunk_size(std::string_view line);
  void take_body(std::string_view& bytes, const BodySink& sink);

  bool to_head_;
  State state_ = State::kHead;
  ReplyHead head_;
  std::string line_;       // the line that is not whole yet, without its end
  size_t head_bytes_ = 0;  // of the head or the trailer so far
  uint64_t left_bytes_ = 0;
  bool keep_alive_ = false;
  bool stopped_ = false;
  std::string version_;
};

}  // namespace vernier
