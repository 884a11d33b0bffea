#include "text/charsmap.h"

#include <cstring>

#include "text/unicode.h"
#include "text/utf8.h"

namespace vernier {

using unicode::Break;
using unicode::Conjunct;

namespace {

/// What the rules need to know of the cluster so far.
struct ClusterState {
  Break previous = Break::kOther;
  bool picture = false;  // an Extended_Pictographic, then only Extend (and at last a ZWJ)
  bool odd_indicators = false;
  bool consonant = false;  // a conjunct consonant, then extenders and linkers
  bool linker = false;     // one of those was a linker
};

bool is_control(Break value) {
  return value == Break::kControl || value == Break::kCr || value == Break::kLf;
}

/// Whether there is a border between the cluster so far and the next character.
bool is_border(const ClusterState& state, Break next, Conjunct conjunct) {
  Break previous = state.previous;
  if (previous == Break::kCr && next == Break::kLf) return false;
  if (is_control(previous) || is_control(next)) return true;
  if (previous == Break::kL && (next == Break::kL || next == Break::kV || next == Break::kLv || next == Break::kLvt)) {
    return false;
  }
  bool open = previous == Break::kLv || previous == Break::kV;
  if (open && (next == Break::kV || next == Break::kT)) return false;
  if ((previous == Break::kLvt || previous == Break::kT) && next == Break::kT) return false;
  if (next == Break::kExtend || next == Break::kZwj || next == Break::kSpacingMark) return false;
  if (previous == Break::kPrepend) return false;
  if (state.consonant && state.linker && conjunct == Conjunct::kConsonant) return false;
  if (state.picture && previous == Break::kZwj && next == Break::kPicture) return false;
  if (state.odd_indicators && previous == Break::kRegionalIndicator && next == Break::kRegionalIndicator) return false;
  return true;
}

void advance(ClusterState& state, Break next, Conjunct conjunct) {
  state.picture = next == Break::kPicture || (state.picture && (next == Break::kExtend || next == Break::kZwj));
  state.odd_indicators = next == Break::kRegionalIndicator && !state.odd_indicators;
  if (conjunct == Conjunct::kConsonant) {
    state.consonant = true;
    state.linker = false;
  } else if (conjunct == Conjunct::kLinker) {
    state.linker = true;
  } else if (conjunct == Conjunct::kNone) {
    state.consonant = state.linker = false;
  }
  state.previous = next;
}

}  // namespace

size_t grapheme_end(std::string_view text, size_t at) {
  ClusterState state;
  bool first = true;
  while (at < text.size()) {
    DecodedCodePoint c = decode_utf8(text, at);
    Break next = unicode::grapheme_break(c.value);
    Conjunct conjunct = unicode::conjunct(c.value);
    if (!first && is_border(state, next, conjunct)) return at;
    advance(state, next, conjunct);
    first = false;
    at += c.size_bytes;
  }
  return at;
}

Result<Charsmap> Charsmap::parse(std::string_view bytes) {
  uint32_t size_bytes = 0;
  if (bytes.size() < 4) return corrupt("a compiled character map of {} bytes; expected at least 4", bytes.size());
  std::memcpy(&size_bytes, bytes.data(), 4);
  if (size_bytes > bytes.size() - 4 || size_bytes % 4 != 0 || size_bytes == 0) {
    return corrupt("a compiled character map whose array takes {} of its {} bytes", size_bytes, bytes.size());
  }
  Charsmap map;
  map.units_.resize(size_bytes / 4);
  std::memcpy(map.units_.data(), bytes.data() + 4, size_bytes);
  map.pool_ = bytes.substr(4 + size_bytes);
  if (!is_valid_utf8(map.pool_)) return corrupt("the texts of a compiled character map are not valid UTF-8");
  return map;
}

std::optional<std::string_view> Charsmap::replacement(std::string_view chunk) const {
  // A unit holds a label (bits 0 to 7 and 31), whether it ends a key (8), and an offset (10 up, times 256 if 9 is set).
  auto offset = [](uint32_t unit) { return size_t{unit >> 10} << ((unit & 0x200) >> 6); };
  size_t node = offset(units_[0]);
  for (char c : chunk) {
    auto byte = static_cast<unsigned char>(c);
    node ^= byte;
    if (byte == 0 || node >= units_.size()) return std::nullopt;
    uint32_t unit = units_[node];
    if ((unit & 0x800000FFu) != byte) return std::nullopt;
    node ^= offset(unit);
    if ((unit >> 8 & 1) == 0) continue;
    if (node >= units_.size()) return std::nullopt;
    size_t at = units_[node] & 0x7FFFFFFFu;
    if (at > pool_.size() || (at < pool_.size() && is_utf8_continuation(pool_[at]))) return std::nullopt;
    size_t end = pool_.find('\0', at);
    return std::string_view(pool_).substr(at, end == std::string::npos ? end : end - at);
  }
  return std::nullopt;
}

void Charsmap::apply(MarkedText& text) const {
  std::string_view view = text.text;
  MarkedWriter writer(text);
  auto put = [&](size_t begin, size_t end) {
    std::optional<std::string_view> found = replacement(view.substr(begin, end - begin));
    if (found) writer.put(begin, end, *found);
    return found.has_value();
  };
  for (size_t at = 0; at < view.size();) {
    size_t end = grapheme_end(view, at);
    // SentencePiece's own rule, kept by Hugging Face: a short cluster is replaced as a whole if a prefix of it is
    // known.
    if (end - at < 6 && put(at, end)) {
      at = end;
      continue;
    }
    while (at < end) {
      size_t next = at + utf8_size(view[at]);
      if (!put(at, next)) writer.copy(at, next);
      at = next;
    }
  }
  text = writer.take();
}

}  // namespace vernier
