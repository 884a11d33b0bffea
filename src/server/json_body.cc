#include "server/json_body.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/json_nesting.h"

namespace vernier {
namespace {

/// Where objects grow past this, a table finds the keys they have.
constexpr size_t kSearchedMembers = 32;

/// The one field whose object may have a member for each token of a vocabulary. It is read from front to back.
bool ends_with_bias_key(std::string_view text) {
  constexpr std::string_view kKey = "\"logit_bias\"";
  return text.substr(0, text.find_last_not_of(" \t\r\n") + 1).ends_with(kKey);
}

/// Depth and width, told before anything is built.
Status check_shape(std::string_view text, const JsonLimits& limits) {
  JsonNesting nesting;
  std::vector<size_t> members = {0};  // [depth] keys so far
  size_t bias_depth = 0;              // of the object of logit_bias, while in it
  size_t comparisons = 0;
  bool bias_next = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const size_t before = nesting.depth();
    nesting.push(text[i]);
    if (nesting.depth() > limits.nesting) {
      return invalid_argument("the body nests deeper than {} at byte {}", limits.nesting, i);
    }
    members.resize(nesting.depth() + 1);  // an object that opens has none, and one that closes is forgotten
    if (nesting.depth() < bias_depth) bias_depth = 0;
    if (bias_next && text[i] == '{') bias_depth = nesting.depth();
    if (text[i] == ':' && !nesting.in_string() && before > 0) {
      bias_next = bias_depth == 0 && ends_with_bias_key(text.substr(0, i));
      if (before == bias_depth) continue;
      comparisons += members.back()++;
      if (members.back() > limits.members || comparisons > limits.key_comparisons) {
        return invalid_argument(
            "the body has objects with too many members at byte {}; one has {} at most, and together they are fewer", i,
            limits.members);
      }
    } else if (text[i] > ' ') {
      bias_next = false;
    }
  }
  return {};
}

/// Builds what Json::parse would, except that a large object is not searched for each of its keys.
class JsonBuilder final : public nlohmann::json_sax<Json> {
 public:
  Json take() { return std::move(root_); }
  size_t error_byte() const { return error_byte_; }
  const std::string& reason() const { return reason_; }
  bool out_of_range() const { return out_of_range_; }
  bool named_twice() const { return named_twice_; }
  const std::string& twice() const { return twice_; }

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t& /*text*/) override { return put(value); }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t& value) override { return put(std::move(value)); }
  bool start_object(size_t /*size*/) override { return open(Json::value_t::object); }
  bool start_array(size_t /*size*/) override { return open(Json::value_t::array); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    auto& object = *open_.back().json->get_ptr<Json::object_t*>();
    auto& places = open_.back().places;
    open_.back().key = name;
    if (object.size() < kSearchedMembers) {
      const size_t before = object.size();
      member_ = &object[name];
      return object.size() > before || refuse_twice();
    }
    if (places.empty()) {
      for (size_t i = 0; i < object.size(); ++i) places.emplace((object.begin() + static_cast<ptrdiff_t>(i))->first, i);
    }
    const auto [place, fresh] = places.emplace(name, object.size());
    auto& members = static_cast<Json::object_t::Container&>(object);
    if (!fresh) return refuse_twice();
    members.emplace_back(name, Json());
    member_ = &members[place->second].second;
    return true;
  }

  bool parse_error(size_t byte, const std::string& /*token*/, const nlohmann::detail::exception& error) override {
    error_byte_ = byte > 0 ? byte - 1 : 0;
    out_of_range_ = error.id == 406;
    reason_ = error.what();
    return false;
  }

 private:
  struct Open {
    Json* json;
    std::unordered_map<std::string, size_t> places;  // of the members, once they are many
    std::string key;                                 // the last
  };

  bool refuse_twice() {
    named_twice_ = true;
    for (const Open& open : open_) {
      if (open.json->is_array()) {
        twice_ += fmt::format("[{}]", open.json->size() - 1);
      } else {
        twice_ += (twice_.empty() ? "" : ".") + open.key;
      }
    }
    return false;
  }

  template <class Value>
  bool put(Value&& value) {
    slot() = std::forward<Value>(value);
    return true;
  }
  bool open(Json::value_t type) {
    Json& json = slot();
    json = Json(type);
    open_.push_back({&json, {}, {}});
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }
  Json& slot() {
    if (open_.empty()) return root_;
    if (open_.back().json->is_object()) return *member_;
    return open_.back().json->emplace_back();
  }

  Json root_;
  std::vector<Open> open_;
  Json* member_ = nullptr;  // the value that the last key awaits
  size_t error_byte_ = 0;
  std::string reason_;
  bool out_of_range_ = false;
  bool named_twice_ = false;
  std::string twice_;  // "tools[0].type"
};

/// "invalid string: ill-formed UTF-8 byte" of the parser's longer message; with the word that is no literal.
std::string short_reason(std::string_view message, std::string_view text, size_t byte) {
  if (const size_t at = message.rfind(" - "); at != std::string_view::npos) message.remove_prefix(at + 3);
  const size_t end = message.find("; last read");
  std::string reason(message.substr(0, end));
  if (end != std::string_view::npos && message.find("; expected", end) != std::string_view::npos) {
    reason += message.substr(message.find("; expected", end));
  }
  if (reason != "invalid literal") return reason;
  auto in_word = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); };
  size_t first = std::min(byte, text.size());
  while (first > 0 && byte - first < 20 && in_word(text[first - 1])) --first;
  size_t last = std::min(byte, text.size());
  while (last < text.size() && last - byte < 20 && in_word(text[last])) ++last;
  return first < last ? reason + " " + std::string(text.substr(first, last - first)) : reason;
}

}  // namespace

Result<Json> parse_body(std::string_view text, const JsonLimits& limits) {
  TRY_STATUS(check_shape(text, limits));
  if (text.empty()) return invalid_argument("the body is empty at byte 0; expected a JSON object");
  JsonBuilder builder;
  if (!Json::sax_parse(text, &builder)) {
    if (builder.named_twice()) {
      return Error{ErrorCode::kInvalidArgument, fmt::format("the body names {} twice", builder.twice()),
                   builder.twice()};
    }
    if (builder.out_of_range()) {
      return invalid_argument("the body holds a number that no 64-bit float can hold at byte {} of {}",
                              builder.error_byte(), text.size());
    }
    return invalid_argument("the body is no valid JSON: reading ended at byte {} of {}: {}", builder.error_byte(),
                            text.size(), short_reason(builder.reason(), text, builder.error_byte()));
  }
  Json body = builder.take();
  if (!body.is_object()) {
    return invalid_argument("the body is {} {} at byte 0; expected a JSON object", body.is_array() ? "an" : "a",
                            body.is_null() ? "JSON null" : body.type_name());
  }
  return body;
}

}  // namespace vernier
