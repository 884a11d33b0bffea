#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace vernier {

/// One server-sent event.
struct ReceivedEvent {
  std::string name;  ///< of its `event:` line; empty where there is none
  std::string data;  ///< its `data:` lines, joined by \n
};

/// Bytes of an event stream, split anywhere, to events, by the rules of the HTML standard: lines end with \n, \r\n or
/// \r, a line that begins with ':' is a comment, an event that the end cuts off is none.
class EventReader {
 public:
  using Take = std::function<void(ReceivedEvent)>;

  void feed(std::string_view bytes, const Take& take);
  int comments() const { return comments_; }

 private:
  void end_line(const Take& take);

  std::string line_;
  ReceivedEvent event_;
  bool has_data_ = false;
  bool after_return_ = false;  // a \n that follows ends no second line
  bool first_line_ = true;
  int comments_ = 0;
};

}  // namespace vernier
