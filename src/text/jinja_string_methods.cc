#include <algorithm>
#include <array>
#include <unordered_map>

#include "text/jinja_search.h"
#include "text/jinja_strings.h"
#include "text/jinja_unicode.h"

// The methods of str.
namespace vernier::jinja {
namespace {

using In = Interpreter;

/// A search range "start, end" in code points, as bytes; false if it is empty beyond the text.
bool search_range(const StringObject& string, const Value& start, const Value& end, size_t& first, size_t& last) {
  const auto length = static_cast<int64_t>(string.length());
  const auto index = [&](const Value& value, int64_t otherwise) {
    if (value.missing() || value.is(Kind::kNone)) return otherwise;
    const int64_t given = expect_int(value, "slice indices");
    return given < 0 ? std::max<int64_t>(0, given + length) : given;
  };
  const int64_t from = index(start, 0), to = std::min(index(end, length), length);
  if (from > to) return false;
  const auto byte_of = [&](int64_t codes) {
    if (string.is_ascii()) return static_cast<size_t>(codes);
    size_t position = 0;
    for (int64_t i = 0; i < codes; ++i) next_code(string.text, position);
    return position;
  };
  first = byte_of(from);
  last = byte_of(to);
  return true;
}

int64_t find_text(In& in, const StringObject& string, const Value* a, bool from_right) {
  const std::string& wanted = expect_string(a[0], "find arg").text;
  size_t first = 0, last = 0;
  if (!search_range(string, a[1], a[2], first, last)) return -1;
  in.heap().spend(string.text.size() / 64);
  const std::string_view window = std::string_view(string.text).substr(first, last - first);
  const size_t at = from_right ? find_last_bytes(in.heap(), window, wanted) : find_bytes(window, wanted);
  if (at == std::string_view::npos) return -1;
  return static_cast<int64_t>(count_codes(std::string_view(string.text).substr(0, first + at)));
}

Value method_find(In& in, const Value& self, const Value* a) {
  return Value::integer(find_text(in, self.str(), a, false));
}
Value method_rfind(In& in, const Value& self, const Value* a) {
  return Value::integer(find_text(in, self.str(), a, true));
}

Value found_or_fail(int64_t at) {
  if (at < 0) fail("substring not found");
  return Value::integer(at);
}
Value method_index(In& in, const Value& self, const Value* a) {
  return found_or_fail(find_text(in, self.str(), a, false));
}
Value method_rindex(In& in, const Value& self, const Value* a) {
  return found_or_fail(find_text(in, self.str(), a, true));
}

Value method_count(In&, const Value& self, const Value* a) {
  const std::string& wanted = expect_string(a[0], "count arg").text;
  size_t first = 0, last = 0;
  if (!search_range(self.str(), a[1], a[2], first, last)) return Value::integer(0);
  const std::string_view window = std::string_view(self.text()).substr(first, last - first);
  if (wanted.empty()) return Value::integer(static_cast<int64_t>(count_codes(window)) + 1);
  int64_t count = 0;
  for (size_t at = find_bytes(window, wanted); at != std::string_view::npos;
       at = find_bytes(window, wanted, at + wanted.size())) {
    ++count;
  }
  return Value::integer(count);
}

/// startswith and endswith, of one string or any of a tuple.
Value affix(const Value& self, const Value* a, bool at_end) {
  size_t first = 0, last = 0;
  const bool valid = search_range(self.str(), a[1], a[2], first, last);
  const std::string_view window = valid ? std::string_view(self.text()).substr(first, last - first) : "";
  const auto matches = [&](const Value& value) {
    const std::string& part = expect_string(value, at_end ? "endswith first arg" : "startswith first arg").text;
    return valid && (at_end ? window.ends_with(part) : window.starts_with(part));
  };
  if (!a[0].is(Kind::kTuple)) return Value::boolean(matches(a[0]));
  const std::vector<Value>& parts = a[0].as<ListObject>().items;
  return Value::boolean(std::any_of(parts.begin(), parts.end(), matches));
}
Value method_startswith(In&, const Value& self, const Value* a) {
  return affix(self, a, false);
}
Value method_endswith(In&, const Value& self, const Value* a) {
  return affix(self, a, true);
}

Value method_strip(In& in, const Value& self, const Value* a) {
  return strip(in, self.str(), a[0], Sides::kBoth);
}
Value method_lstrip(In& in, const Value& self, const Value* a) {
  return strip(in, self.str(), a[0], Sides::kLeft);
}
Value method_rstrip(In& in, const Value& self, const Value* a) {
  return strip(in, self.str(), a[0], Sides::kRight);
}

Value method_split(In& in, const Value& self, const Value* a) {
  return in.heap().list(split(in, self.str(), a[0], int_or(a[1], -1, "maxsplit"), false));
}
Value method_rsplit(In& in, const Value& self, const Value* a) {
  return in.heap().list(split(in, self.str(), a[0], int_or(a[1], -1, "maxsplit"), true));
}
Value method_splitlines(In& in, const Value& self, const Value* a) {
  return in.heap().list(split_lines(in, self.str(), !a[0].missing() && truthy(a[0])));
}

Value partition_at(In& in, const StringObject& string, const Value& separator, bool from_right) {
  const std::string& by = expect_string(separator, "separator").text;
  if (by.empty()) fail("empty separator");
  Heap& heap = in.heap();
  const size_t at = from_right ? find_last_bytes(in.heap(), string.text, by) : find_bytes(string.text, by);
  const size_t size = string.text.size();
  if (at != std::string::npos) {
    return heap.tuple(
        {heap.part(string, 0, at), heap.part(string, at, at + by.size()), heap.part(string, at + by.size(), size)});
  }
  const Value whole = heap.part(string, 0, size), none = heap.string("");
  return heap.tuple(from_right ? std::vector<Value>{none, none, whole} : std::vector<Value>{whole, none, none});
}
Value method_partition(In& in, const Value& self, const Value* a) {
  return partition_at(in, self.str(), a[0], false);
}
Value method_rpartition(In& in, const Value& self, const Value* a) {
  return partition_at(in, self.str(), a[0], true);
}

Value method_replace(In& in, const Value& self, const Value* a) {
  Value old = a[0], fresh = a[1];
  expect_string(old, "replace() argument 1");
  expect_string(fresh, "replace() argument 2");
  if (self.str().markup) {
    old = in.escaped(old);
    fresh = in.escaped(fresh);
  }
  return replace(in, self.str(), old.str(), fresh.str(), int_or(a[2], -1, "count"));
}

Value method_join(In& in, const Value& self, const Value* a) {
  return join(in, self.str(), in.collect(a[0]));
}
Value method_upper(In& in, const Value& self, const Value*) {
  return upper(in, self.str());
}
Value method_lower(In& in, const Value& self, const Value*) {
  return lower(in, self.str());
}
Value method_capitalize(In& in, const Value& self, const Value*) {
  return capitalize(in, self.str());
}

Value method_casefold(In& in, const Value& self, const Value*) {
  return map_characters(in, self.str(), [](std::string& out, uint32_t code, size_t, size_t) {
    append_mapped(out, code, CaseMapping::kFold);
  });
}

Value method_title(In& in, const Value& self, const Value*) {
  bool inside = false;
  const std::string_view text = self.text();
  return map_characters(in, self.str(), [&](std::string& out, uint32_t code, size_t start, size_t end) {
    if (inside) {
      append_lower_in_context(out, code, text.substr(0, start), text.substr(end));
    } else {
      append_mapped(out, code, CaseMapping::kTitle);
    }
    inside = traits_of(code).is_cased();
  });
}

Value method_swapcase(In& in, const Value& self, const Value*) {
  const std::string_view text = self.text();
  return map_characters(in, self.str(), [&](std::string& out, uint32_t code, size_t start, size_t end) {
    const CharacterTraits traits = traits_of(code);
    if (traits.is_upper()) return append_lower_in_context(out, code, text.substr(0, start), text.substr(end));
    if (traits.is_lower()) return append_mapped(out, code, CaseMapping::kUpper);
    append_code(out, code);
  });
}

Value method_removeprefix(In& in, const Value& self, const Value* a) {
  const std::string& prefix = expect_string(a[0], "removeprefix() argument").text;
  const size_t cut = self.text().starts_with(prefix) ? prefix.size() : 0;
  return in.heap().part(self.str(), cut, self.text().size());
}
Value method_removesuffix(In& in, const Value& self, const Value* a) {
  const std::string& suffix = expect_string(a[0], "removesuffix() argument").text;
  const size_t cut = self.text().ends_with(suffix) ? suffix.size() : 0;
  return in.heap().part(self.str(), 0, self.text().size() - cut);
}

Value method_center(In& in, const Value& self, const Value* a) {
  return pad(in, self.str(), expect_int(a[0], "width"), a[1], Sides::kBoth);
}
Value method_ljust(In& in, const Value& self, const Value* a) {
  return pad(in, self.str(), expect_int(a[0], "width"), a[1], Sides::kLeft);
}
Value method_rjust(In& in, const Value& self, const Value* a) {
  return pad(in, self.str(), expect_int(a[0], "width"), a[1], Sides::kRight);
}

Value method_zfill(In& in, const Value& self, const Value* a) {
  const StringObject& string = self.str();
  const size_t sign = !string.text.empty() && (string.text[0] == '+' || string.text[0] == '-') ? 1 : 0;
  const Value digits = in.heap().part(string, sign, string.text.size());
  const int64_t width = expect_int(a[0], "width") - static_cast<int64_t>(sign);
  const Value padded = pad(in, digits.str(), width, in.heap().string("0"), Sides::kRight);
  StringBuilder out;
  out.append_part(string, 0, sign);
  out.append(padded.str());
  return out.take(in.heap(), string.markup);
}

Value method_expandtabs(In& in, const Value& self, const Value* a) {
  const int64_t width = int_or(a[0], 8, "tabsize");
  int64_t column = 0;
  if (width > 0) in.heap().check_bytes(static_cast<uint64_t>(std::min<int64_t>(width, 1 << 30)) * self.text().size());
  return map_characters(in, self.str(), [&](std::string& out, uint32_t code, size_t, size_t) {
    if (code == '\t') {
      if (width <= 0) return;
      out.assign(static_cast<size_t>(width - column % width), ' ');
      column += width - column % width;
      return;
    }
    column = code == '\n' || code == '\r' ? 0 : column + 1;
    append_code(out, code);
  });
}

Value method_format(In& in, const Value& self, Arguments& arguments) {
  return brace_format(in, self.str(), arguments, false);
}
Value method_format_map(In& in, const Value& self, Arguments& arguments) {
  return brace_format(in, self.str(), arguments, true);
}

Value method_translate(In& in, const Value& self, const Value* a) {
  if (!a[0].is(Kind::kDict)) fail("'{}' object is not subscriptable", type_name(a[0]));
  StringBuilder out;
  MarkCursor cursor(self.str());
  for (size_t position = 0; position < self.text().size();) {
    const size_t start = position;
    const uint32_t code = next_code(self.text(), position);
    const Value* found = find(in.heap(), a[0].as<DictObject>(), Value::integer(code));
    if (found == nullptr) {
      out.append_part(self.str(), start, position);
    } else if (found->is_string()) {
      out.append(found->str());
    } else if (!found->is(Kind::kNone)) {
      const int64_t to = expect_int(*found, "character mapping");
      if (to < 0 || to >= 0x110000) fail("character mapping must be in range(0x110000)");
      out.append_code_point(static_cast<uint32_t>(to), cursor.marked(start));
    }
  }
  return out.take(in.heap());
}

Value method_encode(In&, const Value&, const Value*) {
  fail("bytes are not supported: leave out .encode()");
}

/// True if there is a character and each satisfies the condition.
template <bool (*Condition)(uint32_t)>
Value every(In&, const Value& self, const Value*) {
  const std::string& text = self.text();
  for (size_t position = 0; position < text.size();) {
    if (!Condition(next_code(text, position))) return Value::boolean(false);
  }
  return Value::boolean(!text.empty());
}
bool alpha(uint32_t c) {
  return traits_of(c).is_alpha();
}
bool alnum(uint32_t c) {
  return traits_of(c).is_alpha() || traits_of(c).is_numeric();
}
bool digit(uint32_t c) {
  return traits_of(c).is_digit();
}
bool decimal(uint32_t c) {
  return traits_of(c).is_decimal();
}
bool numeric(uint32_t c) {
  return traits_of(c).is_numeric();
}

bool printable(uint32_t c) {
  return traits_of(c).is_printable();
}

Value method_isascii(In&, const Value& self, const Value*) {
  return Value::boolean(self.str().is_ascii());
}

Value method_isprintable(In& in, const Value& self, const Value* a) {
  if (self.text().empty()) return Value::boolean(true);
  return every<printable>(in, self, a);
}

Value method_isidentifier(In&, const Value& self, const Value*) {
  const std::string& text = self.text();
  for (size_t position = 0; position < text.size();) {
    const bool first = position == 0;
    const CharacterTraits traits = traits_of(next_code(text, position));
    if (first ? !traits.starts_identifier() : !traits.continues_identifier()) return Value::boolean(false);
  }
  return Value::boolean(!text.empty());
}

Value one_case(const Value& self, bool upper) {
  bool cased = false;
  const std::string& text = self.text();
  for (size_t position = 0; position < text.size();) {
    const CharacterTraits traits = traits_of(next_code(text, position));
    if (traits.is_title() || (upper ? traits.is_lower() : traits.is_upper())) return Value::boolean(false);
    cased |= traits.is_cased();
  }
  return Value::boolean(cased);
}
Value method_isupper(In&, const Value& self, const Value*) {
  return one_case(self, true);
}
Value method_islower(In&, const Value& self, const Value*) {
  return one_case(self, false);
}

Value method_istitle(In&, const Value& self, const Value*) {
  bool cased = false, inside = false;
  const std::string& text = self.text();
  for (size_t position = 0; position < text.size();) {
    const CharacterTraits traits = traits_of(next_code(text, position));
    if (traits.is_upper() || traits.is_title() ? inside : traits.is_lower() && !inside) return Value::boolean(false);
    inside = traits.is_cased();
    cased |= inside;
  }
  return Value::boolean(cased);
}

const auto kMethods = std::to_array<Filter>({
    {"capitalize", "/", method_capitalize},
    {"casefold", "/", method_casefold},
    {"center", "/width fill?", method_center},
    {"count", "/sub start? end?", method_count},
    {"encode", "encoding? errors?", method_encode},
    {"endswith", "/suffix start? end?", method_endswith},
    {"expandtabs", "tabsize?", method_expandtabs},
    {"find", "/sub start? end?", method_find},
    {"format", "*", nullptr, method_format},
    {"format_map", "*", nullptr, method_format_map},
    {"index", "/sub start? end?", method_index},
    {"isalnum", "/", every<alnum>},
    {"isalpha", "/", every<alpha>},
    {"isascii", "/", method_isascii},
    {"isdecimal", "/", every<decimal>},
    {"isdigit", "/", every<digit>},
    {"isidentifier", "/", method_isidentifier},
    {"islower", "/", method_islower},
    {"isnumeric", "/", every<numeric>},
    {"isprintable", "/", method_isprintable},
    {"isspace", "/", every<is_space>},
    {"istitle", "/", method_istitle},
    {"isupper", "/", method_isupper},
    {"join", "/iterable", method_join},
    {"ljust", "/width fill?", method_ljust},
    {"lower", "/", method_lower},
    {"lstrip", "/chars?", method_lstrip},
    {"partition", "/sep", method_partition},
    {"removeprefix", "/prefix", method_removeprefix},
    {"removesuffix", "/suffix", method_removesuffix},
    {"replace", "/old new count?", method_replace},
    {"rfind", "/sub start? end?", method_rfind},
    {"rindex", "/sub start? end?", method_rindex},
    {"rjust", "/width fill?", method_rjust},
    {"rpartition", "/sep", method_rpartition},
    {"rsplit", "sep? maxsplit?", method_rsplit},
    {"rstrip", "/chars?", method_rstrip},
    {"split", "sep? maxsplit?", method_split},
    {"splitlines", "keepends?", method_splitlines},
    {"startswith", "/prefix start? end?", method_startswith},
    {"strip", "/chars?", method_strip},
    {"swapcase", "/", method_swapcase},
    {"title", "/", method_title},
    {"translate", "/table", method_translate},
    {"upper", "/", method_upper},
    {"zfill", "/width", method_zfill},
});

}  // namespace

const Filter* find_string_method(std::string_view name) {
  static const auto table = [] {
    std::unordered_map<std::string_view, const Filter*> made;
    for (const Filter& method : kMethods) made.emplace(method.name, &method);
    return made;
  }();
  const auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace vernier::jinja
