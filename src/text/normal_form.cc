#include "text/normal_form.h"

#include <algorithm>

#include "text/unicode.h"
#include "text/utf8.h"

namespace vernier {
namespace {

constexpr char32_t kSyllableBase = 0xAC00, kLeadBase = 0x1100, kVowelBase = 0x1161, kTailBase = 0x11A7;
constexpr char32_t kVowels = 21, kTails = 28, kSyllables = 19 * kVowels * kTails;

CodePointSet vowels_and_tails() {
  return CodePointSet::of(kVowelBase, kVowelBase + kVowels - 1)
      .united(CodePointSet::of(kTailBase + 1, kTailBase + kTails - 1));
}

void decompose(char32_t c, std::u32string& out) {
  if (c >= kSyllableBase && c < kSyllableBase + kSyllables) {
    char32_t index = c - kSyllableBase;
    out.push_back(kLeadBase + index / (kVowels * kTails));
    out.push_back(kVowelBase + index / kTails % kVowels);
    if (index % kTails != 0) out.push_back(kTailBase + index % kTails);
    return;
  }
  auto parts = unicode::canonical(c);
  if (parts.empty()) {
    out.push_back(c);
  } else {
    out.append(parts.begin(), parts.end());
  }
}

// While a stretch is worked on, each element is a code point with its combining class above it.
constexpr char32_t kPoint = 0x1FFFFF;
int class_of(char32_t element) {
  return static_cast<int>(element >> 24);
}

void order_marks(std::u32string& text) {
  for (char32_t& element : text) element |= static_cast<char32_t>(unicode::combining_class(element)) << 24;
  auto before = [](char32_t a, char32_t b) { return class_of(a) < class_of(b); };
  for (auto begin = text.begin(); begin != text.end();) {
    if (class_of(*begin) == 0) {
      ++begin;
      continue;
    }
    auto end = std::find_if(begin, text.end(), [](char32_t element) { return class_of(element) == 0; });
    if (!std::is_sorted(begin, end, before)) std::stable_sort(begin, end, before);
    begin = end;
  }
}

char32_t compose_pair(char32_t a, char32_t b) {
  if (a >= kLeadBase && a < kLeadBase + 19 && b >= kVowelBase && b < kVowelBase + kVowels) {
    return kSyllableBase + ((a - kLeadBase) * kVowels + (b - kVowelBase)) * kTails;
  }
  bool open_syllable = a >= kSyllableBase && a < kSyllableBase + kSyllables && (a - kSyllableBase) % kTails == 0;
  if (open_syllable && b > kTailBase && b < kTailBase + kTails) return a + (b - kTailBase);
  return unicode::compose(a, b);
}

void compose(std::u32string& text) {
  std::u32string out;
  size_t starter = std::u32string::npos;
  int last_class = 0;
  for (char32_t element : text) {
    const char32_t c = element & kPoint;
    int order = class_of(element);
    if (starter != std::u32string::npos && (out.size() == starter + 1 || last_class < order)) {
      if (char32_t composed = compose_pair(out[starter] & kPoint, c)) {
        out[starter] = composed;
        continue;
      }
    }
    if (order == 0) starter = out.size();
    last_class = order;
    out.push_back(element);
  }
  text = std::move(out);
}

/// Characters that composing their decomposition does not bring back.
CodePointSet changed_by_nfc() {
  std::vector<CodePointRange> changed;
  CodePointSet sources = unicode::canonical_sources();
  for (CodePointRange range : sources.ranges()) {
    for (char32_t c = range.first; c <= range.last; ++c) {
      std::u32string text;
      decompose(c, text);
      order_marks(text);
      compose(text);
      if (text.size() != 1 || (text[0] & kPoint) != c) changed.push_back({c, c});
    }
  }
  return CodePointSet(changed);
}

/// Characters that a form may change or join to what stands before them. Any other character is a border: what is
/// before it and what is after it can be normalised apart.
CodePointSet interesting(NormalForm form) {
  CodePointSet set = unicode::combining();
  if (form == NormalForm::kNfkc || form == NormalForm::kNfkd) set = set.united(unicode::compatibility_sources());
  if (form == NormalForm::kNfc || form == NormalForm::kNfkc) {
    return set.united(unicode::composition_seconds()).united(changed_by_nfc()).united(vowels_and_tails());
  }
  return set.united(unicode::canonical_sources())
      .united(CodePointSet::of(kSyllableBase, kSyllableBase + kSyllables - 1));
}

const CodePointBitmap& interesting_bitmap(NormalForm form) {
  static const CodePointBitmap bitmaps[] = {
      CodePointBitmap(interesting(NormalForm::kNfc)), CodePointBitmap(interesting(NormalForm::kNfd)),
      CodePointBitmap(interesting(NormalForm::kNfkc)), CodePointBitmap(interesting(NormalForm::kNfkd))};
  return bitmaps[static_cast<int>(form)];
}

void normalise_stretch(MarkedWriter& writer, std::string_view text, ByteRange range, NormalForm form) {
  std::u32string points;
  for (size_t at = range.begin; at < range.end;) {
    DecodedCodePoint c = decode_utf8(text, at);
    at += c.size_bytes;
    bool compatible = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
    auto mapped = compatible ? unicode::compatibility(c.value) : std::span<const char32_t>();
    if (mapped.empty()) decompose(c.value, points);
    for (char32_t part : mapped) decompose(part, points);
  }
  order_marks(points);
  if (form == NormalForm::kNfc || form == NormalForm::kNfkc) compose(points);
  std::string bytes;
  for (char32_t element : points) append_utf8(bytes, element & kPoint);
  writer.put(range.begin, range.end, bytes);
}

}  // namespace

void normalise(MarkedText& text, NormalForm form) {
  const CodePointBitmap& bitmap = interesting_bitmap(form);
  std::string_view view = text.text;
  MarkedWriter writer(text);
  size_t copied = 0;
  size_t border = 0;  // start of the last character that is not interesting
  bool changed = false;
  for (size_t at = 0; at < view.size();) {
    DecodedCodePoint c = decode_utf8(view, at);
    if (c.value < 0xA0 || !bitmap.contains(c.value)) {
      border = at;
      at += c.size_bytes;
      continue;
    }
    size_t end = at;
    while (end < view.size()) {
      DecodedCodePoint next = decode_utf8(view, end);
      if (!bitmap.contains(next.value)) break;
      end += next.size_bytes;
    }
    size_t begin = std::max(border, copied);
    writer.copy(copied, begin);
    normalise_stretch(writer, view, {begin, end}, form);
    copied = border = at = end;
    changed = true;
  }
  if (!changed) return;
  writer.copy(copied, view.size());
  text = writer.take();
}

void lower_case(MarkedText& text) {
  std::string_view view = text.text;
  MarkedWriter writer(text);
  size_t copied = 0;
  std::string bytes;
  for (size_t at = 0; at < view.size();) {
    DecodedCodePoint c = decode_utf8(view, at);
    bool ascii_stays = c.value < 0x80 && !(c.value >= 'A' && c.value <= 'Z');
    auto mapped = ascii_stays ? std::span<const char32_t>() : unicode::lower(c.value);
    if (!mapped.empty()) {
      writer.copy(copied, at);
      bytes.clear();
      for (char32_t point : mapped) append_utf8(bytes, point);
      writer.put(at, at + c.size_bytes, bytes);
      copied = at + c.size_bytes;
    }
    at += c.size_bytes;
  }
  writer.copy(copied, view.size());
  text = writer.take();
}

}  // namespace vernier
