#pragma once

#include <functional>

#include "text/jinja_interpreter.h"

/// Operations on marked texts that methods and filters share.
namespace vernier::jinja {

/// Tells for growing positions whether a byte of a text is marked.
class MarkCursor {
 public:
  explicit MarkCursor(const StringObject& string) : string_(string) {}
  bool marked(size_t position) {
    if (string_.all_marked) return true;
    while (next_ < string_.marks.size() && string_.marks[next_].end <= position) ++next_;
    return next_ < string_.marks.size() && string_.marks[next_].begin <= position;
  }

 private:
  const StringObject& string_;
  size_t next_ = 0;
};

enum class Sides : uint8_t { kBoth, kLeft, kRight };

/// strip(): without characters, white space goes.
Value strip(Interpreter& in, const StringObject& string, const Value& characters, Sides sides);
/// split() and rsplit(); `separator` none or missing: runs of white space. `limit` < 0: no limit.
std::vector<Value> split(Interpreter& in, const StringObject& string, const Value& separator, int64_t limit,
                         bool from_right);
std::vector<Value> split_lines(Interpreter& in, const StringObject& string, bool keep_ends);
/// replace(); `limit` < 0: all.
Value replace(Interpreter& in, const StringObject& string, const StringObject& old, const StringObject& fresh,
              int64_t limit);
/// separator.join(items), where every item must be a string.
Value join(Interpreter& in, const StringObject& separator, const std::vector<Value>& items);
/// Rebuilds a text character by character; marks stay with their characters.
Value map_characters(Interpreter& in, const StringObject& string,
                     const std::function<void(std::string& out, uint32_t code, size_t start, size_t end)>& map);
Value upper(Interpreter& in, const StringObject& string);
Value lower(Interpreter& in, const StringObject& string);
Value capitalize(Interpreter& in, const StringObject& string);
/// Pads to `width` code points with `fill` on the sides given.
Value pad(Interpreter& in, const StringObject& string, int64_t width, const Value& fill, Sides text_side);

}  // namespace vernier::jinja
