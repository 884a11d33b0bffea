#include "client/reply_parser.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>

namespace vernier {
namespace {

constexpr size_t kMostHeadBytes = 64 << 10;

Error malformed(std::string message) {
  return {ErrorCode::kCorrupt, std::move(message), "malformed"};
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

std::string_view trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::optional<uint64_t> whole_number(std::string_view text, int base) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

const std::string* ReplyHead::find(std::string_view name) const {
  for (const auto& [key, value] : fields) {
    if (key == name) return &value;
  }
  return nullptr;
}

std::string ReplyHead::get(std::string_view name) const {
  const std::string* value = find(name);
  return value == nullptr ? "" : *value;
}

Result<size_t> ReplyParser::feed(std::string_view bytes, const BodySink& sink) {
  const size_t given = bytes.size();
  while (!bytes.empty() && !done() && !stopped_) {
    if (state_ == State::kSized || state_ == State::kChunk || state_ == State::kUntilClose) {
      take_body(bytes, sink);
      continue;
    }
    TRY_BIND(bool whole, take_line(bytes));
    if (whole) TRY_STATUS(end_line());
  }
  return given - bytes.size();
}

Status ReplyParser::close() {
  if (state_ == State::kUntilClose) state_ = State::kDone;
  if (done()) return {};
  return Error{ErrorCode::kInternal,
               head_done() ? "the server hung up in the middle of an answer" : "the server hung up without an answer",
               "hang-up"};
}

/// Moves bytes into `line_` up to the line's end; true once it is whole.
Result<bool> ReplyParser::take_line(std::string_view& bytes) {
  const size_t end = bytes.find('\n');
  const size_t count = std::min(end, bytes.size());
  line_ += bytes.substr(0, count);
  head_bytes_ += count + 1;
  if (head_bytes_ > kMostHeadBytes) return malformed("a head, a chunk's size or a trailer is above 64 KiB");
  bytes.remove_prefix(end == std::string_view::npos ? count : count + 1);
  if (end == std::string_view::npos) return false;
  if (line_.ends_with('\r')) line_.pop_back();
  return true;
}

Status ReplyParser::end_line() {
  const std::string line = std::exchange(line_, {});
  switch (state_) {
    case State::kHead:
      return line.empty() && !version_.empty() ? end_head() : take_field(line);
    case State::kChunkSize:
      return chunk_size(line);
    case State::kChunkEnd:
      if (!line.empty()) return malformed("a chunk is longer than its size says");
      state_ = State::kChunkSize;
      return {};
    default:  // a trailer: fields that nobody asks for, and an empty line
      if (line.empty()) state_ = State::kDone;
      return {};
  }
}

Status ReplyParser::take_field(std::string_view line) {
  if (version_.empty()) {
    const uint64_t status = line.size() >= 12 ? whole_number(line.substr(9, 3), 10).value_or(0) : 0;
    if (!line.starts_with("HTTP/1.") || line[8] != ' ' || status < 100 || status > 599) {
      return malformed(fmt::format("expected a status line of HTTP/1.1, found '{:.60}'", line));
    }
    version_ = line.substr(0, 8);
    head_.status = static_cast<int>(status);
    return {};
  }
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || colon == 0) {
    return malformed(fmt::format("expected 'name: value' in the head, found '{:.60}'", line));
  }
  head_.fields.emplace_back(lower(line.substr(0, colon)), trim(line.substr(colon + 1)));
  return {};
}

Status ReplyParser::end_head() {
  if (head_.status < 200 && head_.status != 101) {
    head_ = {};
    version_.clear();
    return {};
  }
  const std::string connection = lower(head_.get("connection"));
  keep_alive_ = version_ == "HTTP/1.0" ? connection == "keep-alive" : connection.find("close") == std::string::npos;
  head_bytes_ = 0;
  std::optional<uint64_t> length;
  for (const auto& [name, value] : head_.fields) {
    if (name != "content-length") continue;
    const auto number = whole_number(value, 10);
    if (!number || (length && *length != *number)) return malformed(fmt::format("Content-Length '{:.40}'", value));
    length = number;
  }
  const std::string encoding = lower(head_.get("transfer-encoding"));
  if (to_head_ || head_.status == 204 || head_.status == 304) {
    state_ = State::kDone;
  } else if (encoding == "chunked") {
    state_ = State::kChunkSize;
  } else if (!encoding.empty()) {
    return malformed(fmt::format("Transfer-Encoding '{:.40}', expected chunked", encoding));
  } else if (length) {
    left_bytes_ = *length;
    state_ = left_bytes_ == 0 ? State::kDone : State::kSized;
  } else {
    keep_alive_ = false;
    state_ = State::kUntilClose;
  }
  return {};
}

Status ReplyParser::chunk_size(std::string_view line) {
  const auto size = whole_number(trim(line.substr(0, line.find(';'))), 16);
  if (!size || *size > (uint64_t{1} << 40))
    return malformed(fmt::format("expected a chunk's size, found '{:.40}'", line));
  head_bytes_ = 0;
  left_bytes_ = *size;
  state_ = left_bytes_ == 0 ? State::kTrailer : State::kChunk;
  return {};
}

void ReplyParser::take_body(std::string_view& bytes, const BodySink& sink) {
  const bool bounded = state_ != State::kUntilClose;
  const size_t count = bounded ? static_cast<size_t>(std::min<uint64_t>(bytes.size(), left_bytes_)) : bytes.size();
  if (sink && !sink(bytes.substr(0, count))) stopped_ = true;
  bytes.remove_prefix(count);
  if (!bounded) return;
  left_bytes_ -= count;
  if (left_bytes_ == 0) state_ = state_ == State::kSized ? State::kDone : State::kChunkEnd;
}

}  // namespace vernier
