#include <algorithm>
#include <cctype>

#include "text/call_syntax.h"

namespace vernier {
namespace {

bool is_name_byte(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
}

/// Mistral: [TOOL_CALLS] and then a list of objects, one object, or NAME[ARGS]{...}, which may come again.
class MistralSyntax : public CallSyntax {
 public:
  explicit MistralSyntax(const CallSyntaxInput& input) : pending_(*input.pending), reader_(pending_, *input.tools) {}

  void open(std::string_view marker) override {
    pending_.raw(marker);
    reader_.reset();
    state_ = State::kStart;
    name_.clear();
  }

  CallStep text(std::string_view text, size_t& at, AnswerWriter::Deltas& out) override {
    while (at < text.size()) {
      if (reader_.is_reading()) {
        if (!reader_.push(text, at, out) && at < text.size()) return CallStep::kRefused;
        continue;
      }
      bool in_list = state_ == State::kItem || state_ == State::kFirstItem;
      char c = text[at];
      if (c == '{' && (in_list || state_ == State::kStart || (state_ == State::kName && !name_.empty()))) {
        reader_.begin(name_.empty() ? JsonCall::Form::kNamed : JsonCall::Form::kArguments, name_);
        state_ = in_list ? State::kAfterItem : State::kAfter;
        continue;
      }
      bool closes = c == ']' && (state_ == State::kAfterItem || state_ == State::kFirstItem);
      if (!closes && !other_byte(c)) return CallStep::kRefused;
      pending_.raw(c);
      ++at;
      if (closes) return CallStep::kEnd;
    }
    return CallStep::kMore;
  }

  CallStep marker(std::string_view marker, AnswerWriter::Deltas& out) override {
    if (reader_.is_reading()) return reader_.push_marker(marker, out) ? CallStep::kMore : CallStep::kRefused;
    if (state_ == State::kAfter && marker == "[TOOL_CALLS]") {
      pending_.drop_raw();
      open(marker);
      return CallStep::kMore;
    }
    bool has_name = !name_.empty() && (state_ == State::kName || state_ == State::kCallId);
    if (!has_name || (marker != "[ARGS]" && marker != "[CALL_ID]")) return CallStep::kRefused;
    pending_.raw(marker);
    if (marker == "[ARGS]") {
      reader_.begin(JsonCall::Form::kArguments, name_);
      state_ = State::kAfter;
    } else {
      state_ = State::kCallId;
    }
    return CallStep::kMore;
  }

 private:
  enum class State : uint8_t { kStart, kFirstItem, kItem, kAfterItem, kName, kCallId, kAfter };

  bool other_byte(char c) {
    switch (state_) {
      case State::kStart:
        if (is_json_space(c)) return true;
        state_ = c == '[' ? State::kFirstItem : State::kName;
        return c == '[' || other_byte(c);
      case State::kAfterItem:
        if (c == ',') state_ = State::kItem;
        return c == ',' || is_json_space(c);
      case State::kName:
        if (is_name_byte(c)) name_ += c;
        return is_name_byte(c) || is_json_space(c);
      case State::kCallId:
        return is_name_byte(c) || is_json_space(c);
      case State::kFirstItem:
      case State::kItem:
      case State::kAfter:
        return is_json_space(c);
    }
    return false;
  }

  PendingCall& pending_;
  JsonCallReader reader_;
  State state_ = State::kStart;
  std::string name_;
};

/// DeepSeek V3: calls begin, (call begin, type, sep, name, fenced arguments, call end)*, calls end; and V3.1, where the
/// name stands before the separator and the arguments have no fence.
class DeepseekSyntax : public CallSyntax {
 public:
  explicit DeepseekSyntax(const CallSyntaxInput& input) : pending_(*input.pending), reader_(pending_, *input.tools) {}

  void open(std::string_view marker) override {
    pending_.raw(marker);
    reader_.reset();
    state_ = marker == kCallBegin ? State::kHead : State::kBetween;
    head_.clear();
  }

  CallStep text(std::string_view text, size_t& at, AnswerWriter::Deltas& out) override {
    while (at < text.size()) {
      if (reader_.is_reading()) {
        if (!reader_.push(text, at, out) && at < text.size()) return CallStep::kRefused;
        continue;
      }
      char c = text[at];
      bool names = state_ == State::kName && name_.empty() && !trim_json_space(head_).empty();
      if (c == '{' && (names || state_ == State::kFence)) {
        reader_.begin(JsonCall::Form::kArguments, std::string(trim_json_space(names ? head_ : name_)));
        state_ = State::kTail;
        continue;
      }
      if (!other_byte(c)) return CallStep::kRefused;
      pending_.raw(c);
      ++at;
    }
    return CallStep::kMore;
  }

  CallStep marker(std::string_view marker, AnswerWriter::Deltas& out) override {
    if (reader_.is_reading()) return reader_.push_marker(marker, out) ? CallStep::kMore : CallStep::kRefused;
    if (state_ == State::kBetween && marker == kCallsEnd) return CallStep::kEnd;
    if (state_ == State::kBetween && marker == kCallBegin) {
      open(marker);
    } else if (state_ == State::kHead && marker == kSeparator) {
      pending_.raw(marker);
      state_ = State::kName;
      name_.clear();
    } else if (state_ == State::kTail && marker == kCallEnd) {
      pending_.drop_raw();
      state_ = State::kBetween;
    } else {
      return CallStep::kRefused;
    }
    return CallStep::kMore;
  }

 private:
  enum class State : uint8_t { kBetween, kHead, kName, kFence, kTail };
  static constexpr std::string_view kCallBegin = "<｜tool▁call▁begin｜>";
  static constexpr std::string_view kSeparator = "<｜tool▁sep｜>";
  static constexpr std::string_view kCallEnd = "<｜tool▁call▁end｜>";
  static constexpr std::string_view kCallsEnd = "<｜tool▁calls▁end｜>";

  bool other_byte(char c) {
    switch (state_) {
      case State::kBetween:
        return is_json_space(c);
      case State::kHead:
        head_ += c;
        return is_name_byte(c) || is_json_space(c);
      case State::kName:
        if (c == '\n' && !name_.empty()) {
          state_ = State::kFence;
        } else if (is_name_byte(c)) {
          name_ += c;
        }
        return is_name_byte(c) || is_json_space(c);
      case State::kFence:
        return is_json_space(c) || std::string_view("`json").find(c) != std::string_view::npos;
      case State::kTail:
        return is_json_space(c) || c == '`';
    }
    return false;
  }

  PendingCall& pending_;
  JsonCallReader reader_;
  State state_ = State::kBetween;
  std::string head_;  // type, or the name
  std::string name_;
};

}  // namespace

std::unique_ptr<CallSyntax> make_mistral_syntax(const CallSyntaxInput& input) {
  return std::make_unique<MistralSyntax>(input);
}

std::unique_ptr<CallSyntax> make_deepseek_syntax(const CallSyntaxInput& input) {
  return std::make_unique<DeepseekSyntax>(input);
}

}  // namespace vernier
