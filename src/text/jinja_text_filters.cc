#include <algorithm>
#include <array>

#include "text/jinja_attribute_path.h"
#include "text/jinja_filter_tables.h"
#include "text/jinja_strings.h"
#include "text/jinja_unicode.h"

// Filters over texts.
namespace vernier::jinja {
namespace {

using In = Interpreter;

Value filter_string(In& in, const Value& input, const Value*) {
  return in.to_string(input);
}
Value filter_upper(In& in, const Value& input, const Value*) {
  return upper(in, in.to_string(input).str());
}
Value filter_lower(In& in, const Value& input, const Value*) {
  return lower(in, in.to_string(input).str());
}
Value filter_capitalize(In& in, const Value& input, const Value*) {
  return capitalize(in, in.to_string(input).str());
}

Value filter_title(In& in, const Value& input, const Value*) {
  const Value text = in.to_string(input);
  const std::string_view whole = text.text();
  bool start_of_word = true;
  return map_characters(in, text.str(), [&](std::string& out, uint32_t code, size_t start, size_t end) {
    const bool separator = is_space(code) || code == '-' || code == '(' || code == '{' || code == '[' || code == '<';
    if (separator) {
      append_code(out, code);
    } else if (start_of_word) {
      append_mapped(out, code, CaseMapping::kUpper);
    } else {
      append_lower_in_context(out, code, whole.substr(0, start), whole.substr(end));
    }
    start_of_word = separator;
  });
}

Value filter_trim(In& in, const Value& input, const Value* a) {
  return strip(in, in.to_string(input).str(), a[0], Sides::kBoth);
}

Value filter_replace(In& in, const Value& input, const Value* a) {
  const int64_t count = a[2].missing() || a[2].is(Kind::kNone) ? -1 : expect_int(a[2], "count");
  Value text = in.to_string(input), old = in.to_string(a[0]), fresh = in.to_string(a[1]);
  if (!in.autoescape()) {
    Value made = replace(in, text.str(), old.str(), fresh.str(), count);
    if (!made.str().markup) return made;
    StringBuilder plain;
    plain.append(made.str());
    return plain.take(in.heap());
  }
  if (old.str().markup || (fresh.str().markup && !text.str().markup)) text = in.escaped(text);
  if (text.str().markup) {
    old = in.escaped(old);
    fresh = in.escaped(fresh);
  }
  return replace(in, text.str(), old.str(), fresh.str(), count);
}

Value filter_center(In& in, const Value& input, const Value* a) {
  return pad(in, in.to_string(input).str(), int_or(a[0], 80, "width"), {}, Sides::kBoth);
}

Value filter_format(In& in, const Value& input, Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    fail("can't handle positional and keyword arguments at the same time");
  }
  const Value format = in.to_string(input);
  if (arguments.named.empty()) {
    return percent_format(in, format.str(), in.heap().tuple(std::move(arguments.positional)));
  }
  DictObject* named = in.heap().dict();
  for (auto& [name, value] : arguments.named) in.heap().insert(*named, in.heap().string(std::string(name)), value);
  return percent_format(in, format.str(), Value::object(Kind::kDict, named));
}

Value filter_indent(In& in, const Value& input, const Value* a) {
  Heap& heap = in.heap();
  if (input.undefined()) fail_undefined(input);
  expect_string(input, "indent: the input");
  Value indention = a[0];
  if (!indention.is_string()) {
    const int64_t width = std::max<int64_t>(0, int_or(a[0], 4, "width"));
    heap.check_bytes(static_cast<uint64_t>(width));
    indention = heap.string(std::string(static_cast<size_t>(width), ' '));
  }
  StringBuilder text;
  text.append(input.str());
  text.append("\n");
  const Value terminated = text.take(heap);
  const std::vector<Value> lines = split_lines(in, terminated.str(), false);
  StringBuilder out;
  if (flag(a[1])) out.append(indention.str());
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) {
      out.append("\n");
      if (flag(a[2]) || !lines[i].text().empty()) out.append(indention.str());
    }
    out.append(lines[i].str());
    heap.check_bytes(out.size());
  }
  return out.take(heap, input.str().markup);
}

Value filter_truncate(In& in, const Value& input, const Value* a) {
  const int64_t length = int_or(a[0], 255, "length");
  const Value end = a[2].missing() ? in.heap().string("...") : a[2];
  expect_string(end, "truncate: end");
  const int64_t leeway = a[3].missing() || a[3].is(Kind::kNone) ? 5 : expect_int(a[3], "leeway");
  const auto end_length = static_cast<int64_t>(end.str().length());
  if (length < end_length) fail("expected length >= {}, got {}", end_length, length);
  if (leeway < 0) fail("expected leeway >= 0, got {}", leeway);
  int64_t size = 0;
  if (!length_of(input, size)) fail("object of type '{}' has no len()", type_name(input));
  if (size <= length + leeway) return input;
  expect_string(input, "truncate: the input");
  Value cut = in.slice(input, Value::none(), Value::integer(length - end_length), Value::none());
  if (!flag(a[1])) {
    const Value space = in.heap().string(" ");
    cut = split(in, cut.str(), space, 1, true)[0];
  }
  return in.arithmetic(Operator::kAdd, cut, end);
}

Value filter_wordcount(In& in, const Value& input, const Value*) {
  const Value text = in.to_string(input);
  int64_t words = 0;
  bool inside = false;
  for (size_t position = 0; position < text.text().size();) {
    const uint32_t code = next_code(text.text(), position);
    const CharacterTraits traits = traits_of(code);
    const bool word = code == '_' || traits.is_alpha() || traits.is_numeric();
    words += word && !inside;
    inside = word;
  }
  return Value::integer(words);
}

/// textwrap.wrap of one line, as bytes ranges of it: splits at white space, hyphens and, if need be, in words.
class Wrapper {
 public:
  Wrapper(const StringObject& line, int64_t width, bool break_long, bool at_hyphens)
      : text_(line.text), width_(width), break_long_(break_long), at_hyphens_(at_hyphens) {}

  std::vector<std::pair<size_t, size_t>> run() {
    split_chunks();
    std::vector<std::pair<size_t, size_t>> lines;
    std::reverse(chunks_.begin(), chunks_.end());
    while (!chunks_.empty()) {
      if (blank(chunks_.back()) && !lines.empty()) chunks_.pop_back();
      std::vector<Chunk> current;
      int64_t length = 0;
      while (!chunks_.empty() && length + size(chunks_.back()) <= width_) {
        length += size(chunks_.back());
        current.push_back(chunks_.back());
        chunks_.pop_back();
      }
      if (!chunks_.empty() && size(chunks_.back()) > width_) long_word(current, length);
      if (!current.empty() && blank(current.back())) current.pop_back();
      if (!current.empty()) lines.emplace_back(current.front().first, current.back().second);
    }
    return lines;
  }

 private:
  using Chunk = std::pair<size_t, size_t>;

  int64_t size(const Chunk& chunk) const {
    return static_cast<int64_t>(count_codes(std::string_view(text_).substr(chunk.first, chunk.second - chunk.first)));
  }
  static bool space(char c) { return c == ' ' || (c >= 9 && c <= 13); }
  bool blank(const Chunk& chunk) const { return chunk.first < chunk.second && space(text_[chunk.first]); }
  bool letter(size_t at) const {
    if (at >= text_.size()) return false;
    const uint32_t code = next_code(text_, at);
    return traits_of(code).is_alpha();
  }

  void split_chunks() {
    for (size_t start = 0, end = 0; start < text_.size(); start = end) {
      const bool white = space(text_[start]);
      while (end < text_.size() && space(text_[end]) == white) ++end;
      if (white || !at_hyphens_) {
        chunks_.emplace_back(start, end);
        continue;
      }
      size_t from = start;
      for (size_t at = start + 1; at + 1 < end; ++at) {
        // Between letters, a hyphen ends a chunk; a letter must stand two before it and two must follow.
        const bool hyphen =
            text_[at] == '-' && letter(at - 1) && at >= from + 2 && letter(at - 2) && letter(at + 1) && letter(at + 2);
        if (!hyphen) continue;
        chunks_.emplace_back(from, at + 1);
        from = at + 1;
      }
      chunks_.emplace_back(from, end);
    }
  }

  void long_word(std::vector<Chunk>& current, int64_t length) {
    const int64_t left = width_ < 1 ? 1 : width_ - length;
    if (!break_long_) {
      if (current.empty()) {
        current.push_back(chunks_.back());
        chunks_.pop_back();
      }
      return;
    }
    Chunk& chunk = chunks_.back();
    size_t cut = chunk.first;
    for (int64_t i = 0; i < left; ++i) next_code(text_, cut);
    if (at_hyphens_ && size(chunk) > left) {
      const size_t hyphen = std::string_view(text_).substr(chunk.first, cut - chunk.first).rfind('-');
      const bool useful = hyphen != std::string_view::npos && hyphen > 0 &&
                          text_.find_first_not_of('-', chunk.first) < chunk.first + hyphen;
      if (useful) cut = chunk.first + hyphen + 1;
    }
    if (cut > chunk.first) current.emplace_back(chunk.first, cut);
    chunk.first = cut;
  }

  const std::string& text_;
  int64_t width_;
  bool break_long_, at_hyphens_;
  std::vector<Chunk> chunks_;
};

Value filter_wordwrap(In& in, const Value& input, const Value* a) {
  const int64_t width = int_or(a[0], 79, "width");
  if (width <= 0) fail("invalid width {} (must be > 0)", width);
  const bool break_long = a[1].missing() || truthy(a[1]), at_hyphens = a[3].missing() || truthy(a[3]);
  const Value newline = a[2].missing() || a[2].is(Kind::kNone) ? in.heap().string("\n") : a[2];
  expect_string(newline, "wrapstring");
  if (input.undefined()) fail_undefined(input);
  const std::vector<Value> paragraphs = split_lines(in, expect_string(input, "wordwrap: the input"), false);
  StringBuilder out;
  for (size_t i = 0; i < paragraphs.size(); ++i) {
    if (i > 0) out.append(newline.str());
    const StringObject& line = paragraphs[i].str();
    in.heap().spend(line.text.size());
    bool first = true;
    for (const auto& [begin, end] : Wrapper(line, width, break_long, at_hyphens).run()) {
      if (!std::exchange(first, false)) out.append(newline.str());
      out.append_part(line, begin, end);
    }
    in.heap().check_bytes(out.size());
  }
  return out.take(in.heap());
}

const auto kTextFilters = std::to_array<Filter>({
    {"string", "", filter_string},
    {"upper", "", filter_upper},
    {"lower", "", filter_lower},
    {"capitalize", "", filter_capitalize},
    {"title", "", filter_title},
    {"trim", "chars?", filter_trim},
    {"replace", "old new count?", filter_replace},
    {"center", "width?", filter_center},
    {"format", "*", nullptr, filter_format},
    {"indent", "width? first? blank?", filter_indent},
    {"truncate", "length? killwords? end? leeway?", filter_truncate},
    {"wordcount", "", filter_wordcount},
    {"wordwrap", "width? break_long_words? wrapstring? break_on_hyphens?", filter_wordwrap},
});

}  // namespace

std::span<const Filter> text_filters() {
  return kTextFilters;
}

}  // namespace vernier::jinja
