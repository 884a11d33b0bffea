#include "grammar/schema_document.h"

#include <charconv>
#include <optional>
#include <set>
#include <vector>

#include "base/json_nesting.h"

namespace vernier {
namespace {

std::string escape_key(std::string_view key) {
  std::string escaped;
  for (char c : key) escaped += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return escaped;
}

std::string unescape_key(std::string_view key) {
  std::string plain;
  for (size_t i = 0; i < key.size(); ++i) {
    if (key[i] == '~' && i + 1 < key.size() && (key[i + 1] == '0' || key[i + 1] == '1')) {
      plain += key[++i] == '0' ? '~' : '/';
    } else {
      plain += key[i];
    }
  }
  return plain;
}

constexpr std::string_view kMade = "/$merged/";
constexpr size_t kMostMade = 4000;
constexpr size_t kMostMadeBytes = 16 << 20;

std::optional<size_t> made_index(std::string_view pointer) {
  if (!pointer.starts_with(kMade)) return std::nullopt;
  size_t index = 0;
  std::from_chars(pointer.data() + kMade.size(), pointer.data() + pointer.size(), index);
  return index;
}

std::string decode_percent(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned byte = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 3, byte, 16).ptr == text.data() + i + 3) {
      plain += static_cast<char>(byte);
      i += 2;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

/// The first key that stands twice in one object, as the parser comes by.
class RepeatedKey {
 public:
  bool operator()(int, SchemaJson::parse_event_t event, SchemaJson& parsed) {
    using Event = SchemaJson::parse_event_t;
    if (event == Event::object_start) keys_.emplace_back();
    if (event == Event::object_end) keys_.pop_back();
    if (event == Event::key && !keys_.back().insert(parsed.get<std::string>()).second && !found_) {
      found_ = parsed.get<std::string>();
    }
    return true;
  }
  const std::optional<std::string>& found() const { return found_; }

 private:
  std::optional<std::string> found_;
  std::vector<std::set<std::string>> keys_;
};

}  // namespace

std::string pointer_to(std::string_view pointer, std::string_view key) {
  return std::string(pointer) + "/" + escape_key(key);
}

std::string pointer_to(std::string_view pointer, size_t index) {
  return std::string(pointer) + "/" + std::to_string(index);
}

Result<SchemaDocument> SchemaDocument::parse(std::string_view text, size_t nesting) {
  JsonNesting open;
  for (const char c : text) {
    open.push(c);
    if (open.depth() > nesting) return schema_error("", "the schema nests deeper than {} levels", nesting);
  }
  RepeatedKey repeated;
  SchemaDocument document;
  document.root_ = SchemaJson::parse(text, std::ref(repeated), /*allow_exceptions=*/false);
  if (document.root_.is_discarded()) return schema_error("", "the schema is not JSON");
  if (repeated.found()) return schema_error("", "the key '{}' stands twice in one object", *repeated.found());
  return document;
}

const SchemaJson* SchemaDocument::find(std::string_view pointer) const {
  const SchemaJson* at = &root_;
  if (auto made = made_index(pointer)) {
    if (*made >= made_.size()) return nullptr;
    at = &made_[*made].schema;
    pointer.remove_prefix(std::min(pointer.size(), pointer.find('/', kMade.size())));
  }
  while (!pointer.empty()) {
    if (pointer[0] != '/') return nullptr;
    size_t end = pointer.find('/', 1);
    std::string key = unescape_key(pointer.substr(1, end == std::string_view::npos ? end : end - 1));
    pointer = end == std::string_view::npos ? std::string_view() : pointer.substr(end);
    if (at->is_object()) {
      auto found = at->find(key);
      if (found == at->end()) return nullptr;
      at = &*found;
    } else if (at->is_array()) {
      size_t index = 0;
      auto [last, error] = std::from_chars(key.data(), key.data() + key.size(), index);
      if (error != std::errc() || last != key.data() + key.size() || index >= at->size()) return nullptr;
      at = &(*at)[index];
    } else {
      return nullptr;
    }
  }
  return at;
}

Result<std::string> SchemaDocument::resolve(std::string_view reference) const {
  if (reference.empty() || reference[0] != '#') {
    return invalid_argument("$ref '{}' leaves the schema; only references within it (#, #/$defs/...) are supported",
                            reference);
  }
  std::string pointer = decode_percent(reference.substr(1));
  if (!pointer.empty() && pointer[0] != '/') {
    return invalid_argument("$ref '{}' names an anchor; write the path, as in #/$defs/...", reference);
  }
  const SchemaJson* target = made_index(pointer) ? nullptr : find(pointer);
  if (target == nullptr) return invalid_argument("$ref '{}' names nothing in the schema", reference);
  return pointer;
}

std::optional<std::string> SchemaDocument::add(SchemaJson schema, std::string place) {
  made_bytes_ += schema.dump(-1, ' ', false, SchemaJson::error_handler_t::replace).size();
  if (made_.size() >= kMostMade || made_bytes_ > kMostMadeBytes) return std::nullopt;
  made_.push_back({std::move(schema), std::move(place)});
  return std::string(kMade) + std::to_string(made_.size() - 1);
}

bool SchemaDocument::is_made(std::string_view pointer) {
  return pointer.starts_with(kMade);
}

Error SchemaDocument::placed(Error error) const {
  while (error.where.starts_with("#")) {
    const std::string_view pointer = std::string_view(error.where).substr(1);
    const std::optional<size_t> index = made_index(pointer);
    if (!index || *index >= made_.size()) break;
    const size_t rest = pointer.find('/', kMade.size());
    error.where = "#" + made_[*index].place + std::string(rest == std::string_view::npos ? "" : pointer.substr(rest));
  }
  return error;
}

}  // namespace vernier
