#include "text/jinja_pprint.h"

#include <algorithm>

#include "text/jinja_strings.h"
#include "text/jinja_unicode.h"

namespace vernier::jinja {
namespace {

constexpr int64_t kWidth = 80;

class PrettyPrinter {
 public:
  explicit PrettyPrinter(Interpreter& in) : in_(in) {}

  /// `indent`: the column where the value starts; `allowance`: what must fit behind it.
  void put(const Value& value, int64_t indent, int64_t allowance) {
    const Interpreter::Depth depth(in_);
    const Value line = one_line(value);
    in_.heap().check_bytes(out_.size());
    const bool fits = static_cast<int64_t>(line.str().length()) <= kWidth - indent - allowance;
    const bool plain = value.is_string() && !value.str().markup;
    ++level_;
    if (fits || !(plain || value.is_sequence() || value.is(Kind::kDict))) {
      out_.append(line.str());
    } else if (plain) {
      put_string(value.str(), indent, allowance);
    } else if (value.is(Kind::kDict)) {
      put_dict(value.as<DictObject>(), indent, allowance);
    } else {
      put_items(value, indent, allowance);
    }
    --level_;
  }

  Value take() { return out_.take(in_.heap()); }

 private:
  /// The entries of a dictionary by key; keys that have no order among themselves by type.
  std::vector<const std::pair<Value, Value>*> sorted(const DictObject& dict) {
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    const auto comparable = [](const Value& a, const Value& b) {
      return (a.is_string() && b.is_string()) || (a.is_number() && b.is_number());
    };
    std::stable_sort(entries.begin(), entries.end(), [&](const auto* a, const auto* b) {
      if (comparable(a->first, b->first)) return less(in_.heap(), a->first, b->first);
      return std::string_view(type_name(a->first)) < type_name(b->first);
    });
    return entries;
  }

  Value one_line(const Value& value) {
    const Interpreter::Depth depth(in_);
    StringBuilder out;
    if (value.is(Kind::kDict)) {
      out.append("{");
      bool first = true;
      for (const auto* entry : sorted(value.as<DictObject>())) {
        if (!std::exchange(first, false)) out.append(", ");
        out.append(one_line(entry->first).str());
        out.append(": ");
        out.append(one_line(entry->second).str());
      }
      out.append("}");
    } else if (value.is_sequence()) {
      const std::vector<Value>& items = value.as<ListObject>().items;
      out.append(value.is(Kind::kList) ? "[" : "(");
      for (size_t i = 0; i < items.size(); ++i) {
        if (i > 0) out.append(", ");
        out.append(one_line(items[i]).str());
      }
      out.append(value.is(Kind::kList) ? "]" : items.size() == 1 ? ",)" : ")");
    } else {
      in_.repr(out, value);
    }
    return out.take(in_.heap());
  }

  void new_line(int64_t indent) {
    out_.append("\n");
    out_.append(std::string(static_cast<size_t>(indent), ' '));
  }

  void put_dict(const DictObject& dict, int64_t indent, int64_t allowance) {
    out_.append("{");
    const auto entries = sorted(dict);
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) {
        out_.append(",");
        new_line(indent + 1);
      }
      const Value key = one_line(entries[i]->first);
      out_.append(key.str());
      out_.append(": ");
      const bool last = i + 1 == entries.size();
      put(entries[i]->second, indent + 1 + static_cast<int64_t>(key.str().length()) + 2, last ? allowance + 1 : 1);
    }
    out_.append("}");
  }

  void put_items(const Value& value, int64_t indent, int64_t allowance) {
    const std::vector<Value>& items = value.as<ListObject>().items;
    const std::string_view end = value.is(Kind::kList) ? "]" : items.size() == 1 ? ",)" : ")";
    out_.append(value.is(Kind::kList) ? "[" : "(");
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) {
        out_.append(",");
        new_line(indent + 1);
      }
      put(items[i], indent + 1, i + 1 == items.size() ? allowance + static_cast<int64_t>(end.size()) : 1);
    }
    out_.append(end);
  }

  /// A long text becomes several literals, cut behind white space.
  void put_string(const StringObject& string, int64_t indent, int64_t allowance) {
    if (level_ == 1) {
      ++indent;
      ++allowance;
    }
    const std::vector<Value> lines = split_lines(in_, string, true);
    const int64_t width = kWidth - indent;
    std::vector<Value> chunks;
    for (size_t i = 0; i < lines.size(); ++i) {
      const bool last_line = i + 1 == lines.size();
      const Value line = one_line(lines[i]);
      if (static_cast<int64_t>(line.str().length()) <= width - (last_line ? allowance : 0)) {
        chunks.push_back(line);
      } else {
        put_words(lines[i].str(), width, last_line ? allowance : 0, chunks);
      }
    }
    if (chunks.size() == 1) return out_.append(chunks[0].str());
    if (level_ == 1) out_.append("(");
    for (size_t i = 0; i < chunks.size(); ++i) {
      if (i > 0) new_line(indent);
      out_.append(chunks[i].str());
    }
    if (level_ == 1) out_.append(")");
  }

  void put_words(const StringObject& line, int64_t width, int64_t allowance, std::vector<Value>& chunks) {
    const std::string& text = line.text;
    size_t start = 0, end = 0;
    while (end < text.size()) {
      size_t word = end;
      const auto skip = [&](bool spaces) {
        for (size_t next = word; word < text.size() && is_space(next_code(text, next)) == spaces;) word = next;
      };
      skip(false);
      skip(true);
      const Value candidate = one_line(in_.heap().part(line, start, word));
      const int64_t room = width - (word >= text.size() ? allowance : 0);
      if (static_cast<int64_t>(candidate.str().length()) > room && end > start) {
        chunks.push_back(one_line(in_.heap().part(line, start, end)));
        start = end;
      }
      end = word;
    }
    if (end > start) chunks.push_back(one_line(in_.heap().part(line, start, end)));
  }

  Interpreter& in_;
  StringBuilder out_;
  int level_ = 0;
};

}  // namespace

Value pretty_print(Interpreter& in, const Value& input, const Value*) {
  PrettyPrinter printer(in);
  printer.put(input, 0, 0);
  return printer.take();
}

}  // namespace vernier::jinja
