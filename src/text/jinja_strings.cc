#include "text/jinja_strings.h"

#include <algorithm>

#include "text/jinja_search.h"
#include "text/jinja_unicode.h"

namespace vernier::jinja {
namespace {

bool in_set(const Value& characters, uint32_t code) {
  if (!characters.is_string()) return is_space(code);
  const std::string& set = characters.text();
  for (size_t position = 0; position < set.size();) {
    if (next_code(set, position) == code) return true;
  }
  return false;
}

}  // namespace

Value strip(Interpreter& in, const StringObject& string, const Value& characters, Sides sides) {
  if (!characters.missing() && !characters.is(Kind::kNone)) expect_string(characters, "strip arg");
  const std::string& text = string.text;
  size_t begin = 0, end = text.size();
  while (sides != Sides::kRight && begin < end) {
    size_t next = begin;
    if (!in_set(characters, next_code(text, next))) break;
    begin = next;
  }
  while (sides != Sides::kLeft && end > begin) {
    size_t start = end;
    step_back(text, start);
    size_t next = start;
    if (!in_set(characters, next_code(text, next))) break;
    end = start;
  }
  return in.heap().part(string, begin, end);
}

namespace {

std::vector<Value> split_spaces(Interpreter& in, const StringObject& string, int64_t limit) {
  const std::string& text = string.text;
  std::vector<Value> parts;
  size_t position = 0;
  while (true) {
    size_t next = position;
    while (position < text.size() && is_space(next_code(text, next))) position = next;
    if (position >= text.size()) return parts;
    if (limit >= 0 && static_cast<int64_t>(parts.size()) == limit) {
      parts.push_back(strip(in, in.heap().part(string, position, text.size()).str(), {}, Sides::kRight));
      return parts;
    }
    const size_t start = position;
    for (next = position; position < text.size() && !is_space(next_code(text, next));) position = next;
    parts.push_back(in.heap().part(string, start, position));
  }
}

std::vector<Value> split_spaces_from_right(Interpreter& in, const StringObject& string, int64_t limit) {
  const std::string& text = string.text;
  std::vector<Value> parts;
  const auto space_before = [&](size_t end, size_t& start) {
    start = end;
    step_back(text, start);
    size_t next = start;
    return is_space(next_code(text, next));
  };
  size_t end = text.size(), start = 0;
  while (true) {
    while (end > 0 && space_before(end, start)) end = start;
    if (end == 0) break;
    if (limit >= 0 && static_cast<int64_t>(parts.size()) == limit) {
      parts.push_back(strip(in, in.heap().part(string, 0, end).str(), {}, Sides::kLeft));
      break;
    }
    const size_t last = end;
    while (end > 0 && !space_before(end, start)) end = start;
    parts.push_back(in.heap().part(string, end, last));
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

}  // namespace

std::vector<Value> split(Interpreter& in, const StringObject& string, const Value& separator, int64_t limit,
                         bool from_right) {
  if (separator.missing() || separator.is(Kind::kNone)) {
    return from_right ? split_spaces_from_right(in, string, limit) : split_spaces(in, string, limit);
  }
  const std::string& text = string.text;
  const std::string& by = expect_string(separator, "separator").text;
  if (by.empty()) fail("empty separator");
  std::vector<Value> parts;
  if (from_right) {
    size_t end = text.size();
    while (limit < 0 || static_cast<int64_t>(parts.size()) < limit) {
      const size_t at = find_last_bytes(in.heap(), std::string_view(text).substr(0, end), by);
      if (at == std::string::npos) break;
      parts.push_back(in.heap().part(string, at + by.size(), end));
      end = at;
    }
    parts.push_back(in.heap().part(string, 0, end));
    std::reverse(parts.begin(), parts.end());
    return parts;
  }
  size_t start = 0;
  while (limit < 0 || static_cast<int64_t>(parts.size()) < limit) {
    const size_t at = find_bytes(text, by, start);
    if (at == std::string::npos) break;
    parts.push_back(in.heap().part(string, start, at));
    start = at + by.size();
  }
  parts.push_back(in.heap().part(string, start, text.size()));
  return parts;
}

std::vector<Value> split_lines(Interpreter& in, const StringObject& string, bool keep_ends) {
  const std::string& text = string.text;
  std::vector<Value> lines;
  for (size_t start = 0, position = 0; position < text.size();) {
    const size_t end = position;
    const uint32_t code = next_code(text, position);
    const bool breaks = is_line_break(code);
    if (code == '\r' && position < text.size() && text[position] == '\n') ++position;
    if (!breaks && position < text.size()) continue;
    lines.push_back(in.heap().part(string, start, keep_ends || !breaks ? position : end));
    start = position;
  }
  return lines;
}

Value replace(Interpreter& in, const StringObject& string, const StringObject& old, const StringObject& fresh,
              int64_t limit) {
  const std::string& text = string.text;
  StringBuilder out;
  size_t start = 0;
  for (int64_t done = 0; limit < 0 || done < limit; ++done) {
    size_t at = start;
    if (old.text.empty()) {
      if (done > 0) {
        if (start >= text.size()) break;
        next_code(text, at);
      }
    } else {
      at = find_bytes(text, old.text, start);
      if (at == std::string::npos) break;
    }
    out.append_part(string, start, at);
    out.append(fresh);
    in.heap().spend(1);
    in.heap().check_bytes(out.size());
    start = at + old.text.size();
  }
  out.append_part(string, start, text.size());
  return out.take(in.heap(), string.markup);
}

Value join(Interpreter& in, const StringObject& separator, const std::vector<Value>& items) {
  StringBuilder out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].is_string()) fail("sequence item {}: expected str instance, {} found", i, type_name(items[i]));
    if (i > 0) out.append(separator);
    if (separator.markup) {
      in.append_escaped(out, items[i]);
    } else {
      out.append(items[i].str());
    }
    in.heap().check_bytes(out.size());
  }
  return out.take(in.heap(), separator.markup);
}

Value map_characters(Interpreter& in, const StringObject& string,
                     const std::function<void(std::string&, uint32_t, size_t, size_t)>& map) {
  StringBuilder out;
  MarkCursor cursor(string);
  std::string mapped;
  in.heap().spend(string.text.size() / 8);
  for (size_t position = 0; position < string.text.size();) {
    const size_t start = position;
    const uint32_t code = next_code(string.text, position);
    mapped.clear();
    map(mapped, code, start, position);
    out.append(mapped, cursor.marked(start));
  }
  return out.take(in.heap(), string.markup);
}

Value upper(Interpreter& in, const StringObject& string) {
  return map_characters(in, string, [](std::string& out, uint32_t code, size_t, size_t) {
    append_mapped(out, code, CaseMapping::kUpper);
  });
}

Value lower(Interpreter& in, const StringObject& string) {
  const std::string_view text = string.text;
  return map_characters(in, string, [&](std::string& out, uint32_t code, size_t start, size_t end) {
    append_lower_in_context(out, code, text.substr(0, start), text.substr(end));
  });
}

Value capitalize(Interpreter& in, const StringObject& string) {
  const std::string_view text = string.text;
  return map_characters(in, string, [&](std::string& out, uint32_t code, size_t start, size_t end) {
    if (start == 0) return append_mapped(out, code, CaseMapping::kTitle);
    append_lower_in_context(out, code, text.substr(0, start), text.substr(end));
  });
}

Value pad(Interpreter& in, const StringObject& string, int64_t width, const Value& fill, Sides text_side) {
  std::string unit = " ";
  if (!fill.missing()) {
    unit = expect_string(fill, "fill character").text;
    if (fill.str().length() != 1) fail("The fill character must be exactly one character long");
  }
  const auto length = static_cast<int64_t>(string.length());
  if (width <= length) return in.heap().part(string, 0, string.text.size());
  const int64_t missing = width - length;
  in.heap().check_bytes(static_cast<uint64_t>(missing) * unit.size());
  in.heap().spend(static_cast<uint64_t>(missing) / 8);
  const int64_t before = text_side == Sides::kLeft    ? 0
                         : text_side == Sides::kRight ? missing
                                                      : missing / 2 + (missing & width & 1);
  StringBuilder out;
  for (int64_t i = 0; i < before; ++i) out.append(unit);
  out.append(string);
  for (int64_t i = before; i < missing; ++i) out.append(unit);
  return out.take(in.heap(), string.markup);
}

}  // namespace vernier::jinja
