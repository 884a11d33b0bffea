#include "client/event_reader.h"

#include <utility>

namespace vernier {

void EventReader::feed(std::string_view bytes, const Take& take) {
  while (!bytes.empty()) {
    if (std::exchange(after_return_, false) && bytes[0] == '\n') {
      bytes.remove_prefix(1);
      continue;
    }
    const size_t end = bytes.find_first_of("\r\n");
    line_ += bytes.substr(0, end);
    if (end == std::string_view::npos) return;
    after_return_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    end_line(take);
  }
}

void EventReader::end_line(const Take& take) {
  std::string text = std::exchange(line_, {});
  std::string_view line = text;
  if (std::exchange(first_line_, false) && line.starts_with("\xef\xbb\xbf")) line.remove_prefix(3);
  if (line.empty()) {
    ReceivedEvent event = std::exchange(event_, {});
    if (std::exchange(has_data_, false)) take(std::move(event));
    return;
  }
  if (line[0] == ':') {
    ++comments_;
    return;
  }
  const size_t colon = std::min(line.find(':'), line.size());
  const std::string_view field = line.substr(0, colon);
  std::string_view value = colon < line.size() ? line.substr(colon + 1) : std::string_view{};
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (field == "event") {
    event_.name = value;
  } else if (field == "data") {
    if (std::exchange(has_data_, true)) event_.data += '\n';
    event_.data += value;
  }
}

}  // namespace vernier
