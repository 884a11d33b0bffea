#include "text/json_call.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace vernier {

JsonScanner::State JsonCall::push(char c) {
  if (text_.empty() && is_json_space(c)) return JsonScanner::State::kGoing;
  JsonScanner::State state = step(c);
  if (state == JsonScanner::State::kDone && form_ != Form::kArguments && name_.empty()) {
    return JsonScanner::State::kBroken;
  }
  return state;
}

JsonScanner::State JsonCall::step(char c) {
  size_t depth = scanner_.depth();
  bool outside = !scanner_.in_string();
  bool was_key = scanner_.at_key();
  bool wanted_value = scanner_.wants_value();
  JsonScanner::State state = scanner_.push(c);
  if (state == JsonScanner::State::kBroken) return state;
  text_.push_back(c);
  if (form_ == Form::kArguments) {
    arguments_begin_ = 0;
    if (state == JsonScanner::State::kDone) arguments_end_ = text_.size();
    return state;
  }
  if (depth == 2 && scanner_.depth() == 1 && key_ == "arguments") arguments_end_ = text_.size();
  if (depth != 1 || !outside || is_json_space(c)) return state;
  if (was_key && c == '"') {
    key_begin_ = text_.size() - 1;
  } else if (c == ':' && key_begin_ != std::string::npos) {
    std::string_view key = trim_json_space(std::string_view(text_).substr(key_begin_, text_.size() - 1 - key_begin_));
    nlohmann::json parsed = nlohmann::json::parse(key, nullptr, false);
    key_ = parsed.is_string() ? parsed.get<std::string>() : std::string();  // half a surrogate pair is no text
    if (key_ == "parameters") key_ = "arguments";
    if (form_ == Form::kBare && key_ != "name" && key_ != "arguments") return JsonScanner::State::kBroken;
    key_begin_ = std::string::npos;
  } else if (wanted_value && value_begin_ == std::string::npos) {
    value_begin_ = text_.size() - 1;
    if (c == '{' && key_ == "arguments") {
      if (decoded_ || arguments_begin_ != std::string::npos) return JsonScanner::State::kBroken;
      arguments_begin_ = value_begin_;
    }
  }
  if ((c == ',' || c == '}') && value_begin_ != std::string::npos && !end_member()) return JsonScanner::State::kBroken;
  return state;
}

/// A member of the outermost object has ended before the last byte.
bool JsonCall::end_member() {
  std::string_view raw = std::string_view(text_).substr(value_begin_, text_.size() - 1 - value_begin_);
  value_begin_ = std::string::npos;
  raw = trim_json_space(raw);
  if (key_ == "name") {
    nlohmann::json name = nlohmann::json::parse(raw, nullptr, false);
    if (!name.is_string() || named_) return false;
    name_ = name.get<std::string>();
    named_ = true;
    bool known = std::any_of(tools_->begin(), tools_->end(), [&](const OutputTool& t) { return t.name == name_; });
    return !name_.empty() && (known || form_ != Form::kBare);
  }
  if (key_ != "arguments" || raw.starts_with('{')) return true;
  if (decoded_ || arguments_begin_ != std::string::npos) return false;
  nlohmann::json value = nlohmann::json::parse(raw, nullptr, false);
  if (value.is_null()) {
    decoded_ = "{}";
  } else if (value.is_string()) {
    // Some models write the arguments as a string that holds an object.
    std::string_view inner = trim_json_space(value.get_ref<const std::string&>());
    if (!inner.starts_with('{') || !nlohmann::json::accept(inner)) return false;
    decoded_ = std::string(inner);
  }
  return decoded_.has_value();
}

std::string_view JsonCall::arguments() const {
  if (decoded_) return *decoded_;
  if (arguments_begin_ == std::string::npos) return "{}";
  return std::string_view(text_).substr(arguments_begin_, arguments_end() - arguments_begin_);
}

size_t JsonCall::arguments_end() const {
  return arguments_end_ != std::string::npos ? arguments_end_ : text_.size();
}

void JsonCallReader::begin(JsonCall::Form form, std::string name) {
  call_.emplace(form, std::move(name), tools_);
  raw_begin_ = std::string::npos;
}

bool JsonCallReader::push_marker(std::string_view marker, AnswerWriter::Deltas& out) {
  if (!call_->in_string()) return false;
  size_t at = 0;
  push(marker, at, out);
  return true;
}

bool JsonCallReader::push(std::string_view text, size_t& at, AnswerWriter::Deltas& out) {
  for (; at < text.size(); ++at) {
    JsonScanner::State state = call_->push(text[at]);
    if (state == JsonScanner::State::kBroken) break;
    if (raw_begin_ == std::string::npos && !is_json_space(text[at])) raw_begin_ = pending_.raw_size();
    pending_.raw(text[at]);
    if (state != JsonScanner::State::kDone) continue;
    ++at;
    pending_.whole(call_->name(), call_->arguments(), out);
    call_.reset();
    return true;
  }
  if (call_->may_stream()) {
    pending_.grow(call_->name(), call_->arguments(), raw_begin_ + call_->arguments_end(), out);
  }
  return false;
}

}  // namespace vernier
