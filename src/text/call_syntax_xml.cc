#include <algorithm>

#include "text/call_syntax.h"

namespace vernier {
namespace {

bool is_json_value(std::string_view text) {
  JsonScanner scanner;
  std::string member = "{\"\":" + std::string(text) + "}";
  for (size_t i = 0; i < member.size(); ++i) {
    JsonScanner::State state = scanner.push(member[i]);
    if (state != JsonScanner::State::kGoing) return state == JsonScanner::State::kDone && i + 1 == member.size();
  }
  return false;
}

std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// The types that a schema allows; none means any.
void collect_types(const nlohmann::ordered_json& schema, std::vector<std::string>& types) {
  if (!schema.is_object()) return;
  if (auto type = schema.find("type"); type != schema.end()) {
    if (type->is_string()) types.push_back(type->get<std::string>());
    for (size_t i = 0; type->is_array() && i < type->size(); ++i) {
      if ((*type)[i].is_string()) types.push_back((*type)[i].get<std::string>());
    }
    return;
  }
  for (const char* key : {"anyOf", "oneOf", "allOf"}) {
    auto list = schema.find(key);
    for (size_t i = 0; list != schema.end() && list->is_array() && i < list->size(); ++i) {
      if ((*list)[i].is_object() && (*list)[i].contains("type")) collect_types((*list)[i], types);
    }
  }
  if (auto values = schema.find("enum"); values != schema.end() && values->is_array()) {
    for (const auto& value : *values) {
      types.push_back(value.is_string()    ? "string"
                      : value.is_boolean() ? "boolean"
                      : value.is_null()    ? "null"
                                           : "number");
    }
  }
}

const nlohmann::ordered_json* find_property(const std::vector<OutputTool>& tools, std::string_view name,
                                            const std::string& key) {
  for (const OutputTool& tool : tools) {
    if (tool.name != name || !tool.parameters.is_object()) continue;
    auto properties = tool.parameters.find("properties");
    if (properties == tool.parameters.end() || !properties->is_object()) return nullptr;
    auto property = properties->find(key);
    return property == properties->end() ? nullptr : &*property;
  }
  return nullptr;
}

/// Qwen3-Coder: <tool_call><function=NAME><parameter=KEY>\nVALUE\n</parameter>...</function></tool_call>.
class CoderSyntax : public CallSyntax {
 public:
  explicit CoderSyntax(const CallSyntaxInput& input)
      : pending_(*input.pending), tools_(*input.tools), close_in_text_(input.close_in_text) {}

  void open(std::string_view marker) override {
    pending_.raw(marker);
    go(State::kFunction);
  }

  CallStep text(std::string_view text, size_t& at, AnswerWriter::Deltas& out) override {
    while (at < text.size()) {
      char c = text[at];
      bool ended = false;
      read_ = word_.size();
      if (!byte(c, ended)) return CallStep::kRefused;
      pending_.raw(c);
      ++at;
      if (state_ == State::kValue && word_.ends_with(kEndParameter)) {
        if (!end_value()) return CallStep::kRefused;
        pending_.grow(name_, arguments_, pending_.raw_size(), out);
      }
      if (state_ == State::kParameters && word_ == kEndFunction) {
        pending_.whole(name_, arguments_ + "}", out);
        go(State::kAfter);
      }
      if (ended) return CallStep::kEnd;
    }
    return CallStep::kMore;
  }

  CallStep marker(std::string_view marker, AnswerWriter::Deltas&) override {
    read_ = word_.size();
    return state_ == State::kAfter && word_.empty() && marker == kEndCall ? CallStep::kEnd : CallStep::kRefused;
  }

  std::string_view unread() const override {
    bool in_tag = state_ == State::kFunction || state_ == State::kParameters || state_ == State::kAfter;
    return in_tag ? std::string_view(word_).substr(0, read_) : std::string_view();
  }

 private:
  enum class State : uint8_t { kFunction, kName, kParameters, kKey, kValue, kAfter };
  static constexpr std::string_view kFunction = "<function=";
  static constexpr std::string_view kEndFunction = "</function>";
  static constexpr std::string_view kParameter = "<parameter=";
  static constexpr std::string_view kEndParameter = "</parameter>";
  static constexpr std::string_view kEndCall = "</tool_call>";

  void go(State state) {
    state_ = state;
    word_.clear();
  }

  /// One byte; false if it has no place here.
  bool byte(char c, bool& ended) {
    if (state_ == State::kName || state_ == State::kKey) return name_byte(c);
    if (state_ == State::kValue) {
      word_ += c;
      // A value that holds the next element was never closed: two parameters must not become one.
      return !word_.ends_with(kParameter) && !(close_in_text_ && word_.ends_with(kEndCall));
    }
    if (word_.empty() && is_json_space(c)) return true;
    word_ += c;
    auto may_be = [&](std::string_view tag) { return tag.starts_with(word_); };
    switch (state_) {
      case State::kFunction:
        if (word_ == kFunction) begin_name(State::kName);
        return state_ == State::kName || may_be(kFunction);
      case State::kParameters:
        if (word_ == kParameter) begin_name(State::kKey);
        return state_ == State::kKey || may_be(kParameter) || may_be(kEndFunction);
      default:
        if (word_ == kFunction) {
          begin_name(State::kName);
          return true;
        }
        ended = close_in_text_ && word_ == kEndCall;
        return may_be(kFunction) || (close_in_text_ && may_be(kEndCall));
    }
  }

  void begin_name(State state) {
    go(state);
    (state == State::kName ? name_ : key_).clear();
  }

  bool name_byte(char c) {
    std::string& name = state_ == State::kName ? name_ : key_;
    if (c == '>') {
      if (name.empty()) return false;
      if (state_ == State::kName) {
        arguments_ = "{";
        keys_.clear();
      }
      go(state_ == State::kName ? State::kParameters : State::kValue);
      return true;
    }
    if (c == '<' || c == '\n') return false;
    name += c;
    return true;
  }

  /// A parameter given twice has no meaning: false.
  bool end_value() {
    std::string_view value = std::string_view(word_).substr(0, word_.size() - kEndParameter.size());
    for (std::string_view line : {"\r\n", "\n"}) {
      if (!value.starts_with(line)) continue;
      value.remove_prefix(line.size());
      break;
    }
    for (std::string_view line : {"\r\n", "\n"}) {
      if (!value.ends_with(line)) continue;
      value.remove_suffix(line.size());
      break;
    }
    if (std::find(keys_.begin(), keys_.end(), key_) != keys_.end()) return false;
    keys_.push_back(key_);
    if (arguments_.size() > 1) arguments_ += ", ";
    const nlohmann::ordered_json* schema = find_property(tools_, name_, key_);
    arguments_ += json_string(key_) + ": " + (schema != nullptr ? json_of_text(value, *schema) : json_string(value));
    go(State::kParameters);
    return true;
  }

  PendingCall& pending_;
  const std::vector<OutputTool>& tools_;
  bool close_in_text_;
  State state_ = State::kFunction;
  std::string word_;  // the tag that is being read, or the value
  size_t read_ = 0;   // bytes of it before the last
  std::string name_;
  std::string key_;
  std::string arguments_;  // without the last brace
  std::vector<std::string> keys_;
};

}  // namespace

std::string json_of_text(std::string_view text, const nlohmann::ordered_json& schema) {
  std::vector<std::string> types;
  collect_types(schema, types);
  auto allows = [&](std::string_view type) {
    return types.empty() || std::find(types.begin(), types.end(), type) != types.end();
  };
  std::string_view bare = trim_json_space(text);
  if (allows("null") && (bare == "null" || bare == "None")) return "null";
  // Where both are possible the schema accepts a string in any case, and never has to guess.
  if (!types.empty() && allows("string")) return json_string(text);
  if (allows("boolean")) {
    if (bare == "true" || bare == "True") return "true";
    if (bare == "false" || bare == "False") return "false";
  }
  char first = bare.empty() ? '\0' : bare.front();
  bool number = (first == '-' || (first >= '0' && first <= '9')) && (allows("number") || allows("integer"));
  bool container = (first == '{' && allows("object")) || (first == '[' && allows("array"));
  return (number || container) && is_json_value(bare) ? std::string(bare) : json_string(text);
}

std::unique_ptr<CallSyntax> make_coder_syntax(const CallSyntaxInput& input) {
  return std::make_unique<CoderSyntax>(input);
}

}  // namespace vernier
