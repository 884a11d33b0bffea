#include "tune/tactic_archive.h"

#include <fmt/format.h>

#include <algorithm>

#include "tune/content_hash.h"
#include "tune/tactic_record.h"

namespace vernier {
namespace {

constexpr std::string_view kFirstLine = "vernier tactics 1\n";
constexpr std::string_view kAnyVersion = "vernier tactics ";

}  // namespace

std::string write_archive(std::span<const TacticFolder::Entry> entries) {
  std::string text(kFirstLine);
  // A record is one line and ends with it.
  for (const TacticFolder::Entry& entry : entries) text += entry.id + " " + entry.bytes;
  return text;
}

bool is_archive(std::string_view bytes) {
  return bytes.starts_with(kAnyVersion);
}

Result<TacticFolder::Contents> read_archive(std::string_view bytes) {
  if (!is_archive(bytes)) return corrupt("no archive of tactics: the first line is not '{}1'", kAnyVersion);
  if (!bytes.starts_with(kFirstLine)) {
    return unsupported("'{:.40}'; this version reads '{}1'", bytes.substr(0, bytes.find('\n')), kAnyVersion);
  }
  bytes.remove_prefix(kFirstLine.size());
  TacticFolder::Contents contents;
  for (int line = 2; !bytes.empty(); ++line) {
    const size_t end = bytes.find('\n');
    if (end == std::string_view::npos) return corrupt("line {} is cut off", line);
    const std::string_view text = bytes.substr(0, end + 1);
    bytes.remove_prefix(end + 1);
    const size_t space = std::min(text.find(' '), text.size() - 1);
    const std::string_view id = text.substr(0, space);
    const std::string_view record = text.substr(space + 1);
    if (!is_hash_text(id)) return corrupt("line {} does not begin with a record's id", line);
    if (content_hash(record).to_hex() != id) {
      return corrupt("line {} is damaged: its bytes are not those that its id is the hash of", line);
    }
    contents.entries.push_back({std::string(id), std::string(record), 0});
  }
  return contents;
}

}  // namespace vernier
