#pragma once

#include <cstddef>

namespace vernier {

/// Follows brackets outside of strings, byte by byte, before anything is built of a JSON text: what reads and frees
/// JSON may recurse over its nesting. What is no JSON at all is left to the parser.
class JsonNesting {
 public:
  size_t depth() const { return depth_; }
  bool in_string() const { return in_string_; }

  void push(char c) {
    if (escaped_) {
      escaped_ = false;
    } else if (in_string_) {
      escaped_ = c == '\\';
      in_string_ = c != '"';
    } else if (c == '"') {
      in_string_ = true;
    } else if (c == '{' || c == '[') {
      ++depth_;
    } else if ((c == '}' || c == ']') && depth_ > 0) {
      --depth_;
    }
  }

 private:
  size_t depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
};

}  // namespace vernier
