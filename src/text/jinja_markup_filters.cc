#include <array>

#include "text/jinja_attribute_path.h"
#include "text/jinja_filter_tables.h"
#include "text/jinja_strings.h"
#include "text/jinja_unicode.h"

// Filters for HTML and URLs.
namespace vernier::jinja {
namespace {

using In = Interpreter;

Value filter_escape(In& in, const Value& input, const Value*) {
  return in.escaped(input);
}

Value unescaped_copy(In& in, const Value& input, bool markup) {
  StringBuilder out;
  in.print(out, input);
  return out.take(in.heap(), markup);
}
Value filter_forceescape(In& in, const Value& input, const Value*) {
  return in.escaped(unescaped_copy(in, input, false));
}
Value filter_safe(In& in, const Value& input, const Value*) {
  return unescaped_copy(in, input, true);
}

void append_quoted(StringBuilder& out, const StringObject& string, bool query) {
  MarkCursor cursor(string);
  for (size_t i = 0; i < string.text.size(); ++i) {
    const char c = string.text[i];
    const bool plain = std::isalnum(static_cast<uint8_t>(c)) ||
                       std::string_view("_.-~").find(c) != std::string_view::npos || (c == '/' && !query);
    if (plain) {
      out.append_part(string, i, i + 1);
    } else if (c == ' ' && query) {
      out.append("+", cursor.marked(i));
    } else {
      out.append(fmt::format("%{:02X}", static_cast<uint8_t>(c)), cursor.marked(i));
    }
  }
}

Value filter_urlencode(In& in, const Value& input, const Value*) {
  StringBuilder out;
  in.heap().spend(1);
  const bool iterable = input.is_sequence() || input.is(Kind::kDict) || input.is(Kind::kView) ||
                        input.is(Kind::kIterator) || input.is(Kind::kRange) || input.undefined();
  if (!iterable) {
    append_quoted(out, in.to_string(input).str(), false);
    return out.take(in.heap());
  }
  const auto put = [&](const Value& key, const Value& value) {
    if (out.size() > 0) out.append("&");
    append_quoted(out, in.to_string(key).str(), true);
    out.append("=");
    append_quoted(out, in.to_string(value).str(), true);
    in.heap().check_bytes(out.size());
  };
  if (input.is(Kind::kDict)) {
    for (const auto& [key, value] : input.as<DictObject>().entries) put(key, value);
  } else {
    in.for_each(input, [&](const Value& pair) {
      const std::vector<Value> parts = in.collect(pair);
      if (parts.size() != 2) fail("urlencode expects pairs, found {} values", parts.size());
      put(parts[0], parts[1]);
      return true;
    });
  }
  return out.take(in.heap());
}

Value filter_xmlattr(In& in, const Value& input, const Value* a) {
  if (input.undefined()) fail_undefined(input);
  if (!input.is(Kind::kDict)) fail("'{}' object has no attribute 'items'", type_name(input));
  const bool auto_space = a[0].missing() || truthy(a[0]);
  StringBuilder out;
  bool first = true;
  for (const auto& [key, value] : input.as<DictObject>().entries) {
    if (value.is(Kind::kNone) || value.undefined()) continue;
    const std::string& name = expect_string(key, "attribute name").text;
    if (name.find_first_of(" \t\n\r\f\v/>=") != std::string::npos)
      fail("invalid character in attribute name: '{}'", name);
    if (!first || auto_space) out.append(" ");
    first = false;
    in.append_escaped(out, key);
    out.append("=\"");
    in.append_escaped(out, value);
    out.append("\"");
  }
  return out.take(in.heap(), in.autoescape());
}

/// Turns the entities that HTML text usually holds into their characters.
Value unescape_entities(In& in, const StringObject& string) {
  static constexpr std::pair<std::string_view, std::string_view> kNamed[] = {
      {"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&apos;", "'"}, {"&nbsp;", "\u00a0"}};
  StringBuilder out;
  MarkCursor cursor(string);
  const std::string_view text = string.text;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text[at] == '&' ? text.substr(at, 12).find(';') : std::string_view::npos;
    std::string made;
    if (end != std::string_view::npos) {
      const std::string_view entity = text.substr(at, end + 1);
      for (const auto& [name, character] : kNamed) {
        if (entity == name) made = character;
      }
      if (entity.size() > 3 && entity[1] == '#') {
        const bool hex = (entity[2] | 0x20) == 'x';
        const std::string digits(entity.substr(hex ? 3 : 2, entity.size() - (hex ? 4 : 3)));
        const bool valid = !digits.empty() &&
                           digits.find_first_not_of(hex ? "0123456789abcdefABCDEF" : "0123456789") == std::string::npos;
        const unsigned long code = valid ? std::strtoul(digits.c_str(), nullptr, hex ? 16 : 10) : 0;
        if (code > 0 && code < 0x110000 && (code < 0xd800 || code > 0xdfff))
          append_code(made, static_cast<uint32_t>(code));
      }
    }
    if (made.empty()) {
      out.append_part(string, at, at + 1);
      ++at;
    } else {
      out.append(made, cursor.marked(at));
      at += end + 1;
    }
  }
  return out.take(in.heap());
}

/// Drops comments and tags, then makes every run of white space one space.
Value filter_striptags(In& in, const Value& input, const Value*) {
  const Value text = in.to_string(input);
  const StringObject& string = text.str();
  StringBuilder kept;
  size_t start = 0;
  const auto drop = [&](std::string_view open, std::string_view close, const StringObject& from) {
    StringBuilder out;
    for (start = 0;;) {
      const size_t begin = from.text.find(open, start);
      const size_t end = begin == std::string::npos ? begin : from.text.find(close, begin);
      if (end == std::string::npos) break;
      out.append_part(from, start, begin);
      start = end + close.size();
    }
    out.append_part(from, start, from.text.size());
    return out.take(in.heap());
  };
  const Value no_comments = drop("<!--", "-->", string);
  const Value no_tags = drop("<", ">", no_comments.str());
  const std::vector<Value> words = split(in, no_tags.str(), {}, -1, false);
  const Value joined = join(in, in.heap().string(" ").str(), words);
  return unescape_entities(in, joined.str());
}

Value filter_urlize(In&, const Value&, Arguments&) {
  fail("urlize is not supported: it makes HTML links");
}

const auto kMarkupFilters = std::to_array<Filter>({
    {"escape", "", filter_escape},
    {"e", "", filter_escape},
    {"forceescape", "", filter_forceescape},
    {"safe", "", filter_safe},
    {"urlencode", "", filter_urlencode},
    {"xmlattr", "autospace?", filter_xmlattr},
    {"striptags", "", filter_striptags},
    {"urlize", "*", nullptr, filter_urlize},
});

}  // namespace

std::span<const Filter> markup_filters() {
  return kMarkupFilters;
}

}  // namespace vernier::jinja
