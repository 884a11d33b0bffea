#include "text/call_syntax.h"

namespace vernier {
namespace {

constexpr std::string_view kCloseCall = "</tool_call>";

/// Hermes and Qwen: <tool_call> {...} </tool_call>.
class HermesSyntax : public CallSyntax {
 public:
  explicit HermesSyntax(const CallSyntaxInput& input)
      : pending_(*input.pending), reader_(pending_, *input.tools), close_in_text_(input.close_in_text) {}

  void open(std::string_view marker) override {
    pending_.raw(marker);
    closed_bytes_ = 0;
    reader_.begin(JsonCall::Form::kNamed);
  }

  CallStep text(std::string_view text, size_t& at, AnswerWriter::Deltas& out) override {
    while (at < text.size()) {
      if (reader_.is_reading()) {
        if (!reader_.push(text, at, out) && at < text.size()) return CallStep::kRefused;
        continue;
      }
      char c = text[at];
      if (close_in_text_ && c == kCloseCall[closed_bytes_]) {
        ++closed_bytes_;
      } else if (closed_bytes_ > 0 || !(is_json_space(c) || c == '{')) {
        return CallStep::kRefused;
      } else if (c == '{') {
        reader_.begin(JsonCall::Form::kNamed);
        continue;
      }
      pending_.raw(c);
      ++at;
      if (closed_bytes_ == kCloseCall.size()) return CallStep::kEnd;
    }
    return CallStep::kMore;
  }

  CallStep marker(std::string_view marker, AnswerWriter::Deltas& out) override {
    if (reader_.is_reading()) return reader_.push_marker(marker, out) ? CallStep::kMore : CallStep::kRefused;
    return marker == kCloseCall ? CallStep::kEnd : CallStep::kRefused;
  }

  std::string_view unread() const override {
    return reader_.is_reading() ? std::string_view() : kCloseCall.substr(0, closed_bytes_);
  }

 private:
  PendingCall& pending_;
  JsonCallReader reader_;
  bool close_in_text_;
  size_t closed_bytes_ = 0;
};

/// Llama 3: objects separated by "; ", behind <|python_tag|> or as the whole of the answer.
class LlamaSyntax : public CallSyntax {
 public:
  explicit LlamaSyntax(const CallSyntaxInput& input) : pending_(*input.pending), reader_(pending_, *input.tools) {}

  void open(std::string_view marker) override {
    pending_.raw(marker);
    form_ = marker.empty() ? JsonCall::Form::kBare : JsonCall::Form::kNamed;
    separated_ = false;
    reader_.begin(form_);
  }

  CallStep text(std::string_view text, size_t& at, AnswerWriter::Deltas& out) override {
    while (at < text.size()) {
      char c = text[at];
      if (reader_.is_reading()) {
        if (!reader_.push(text, at, out) && at < text.size()) return CallStep::kRefused;
        continue;
      }
      if (c == '{' && separated_) {
        separated_ = false;
        reader_.begin(form_);
        continue;
      }
      if (!is_json_space(c) && (c != ';' || separated_)) return CallStep::kRefused;
      separated_ = separated_ || c == ';';
      pending_.raw(c);
      ++at;
    }
    return CallStep::kMore;
  }

  CallStep marker(std::string_view marker, AnswerWriter::Deltas& out) override {
    if (reader_.is_reading()) return reader_.push_marker(marker, out) ? CallStep::kMore : CallStep::kRefused;
    pending_.drop_raw();
    open(marker);
    return CallStep::kMore;
  }

 private:
  PendingCall& pending_;
  JsonCallReader reader_;
  JsonCall::Form form_ = JsonCall::Form::kNamed;
  bool separated_ = false;
};

}  // namespace

std::unique_ptr<CallSyntax> make_call_syntax(OutputFormat format, const CallSyntaxInput& input) {
  switch (format) {
    case OutputFormat::kHermes:
    case OutputFormat::kQwen3:
      return std::make_unique<HermesSyntax>(input);
    case OutputFormat::kQwen3Coder:
      return make_coder_syntax(input);
    case OutputFormat::kLlama3:
      return std::make_unique<LlamaSyntax>(input);
    case OutputFormat::kDeepseekV3:
      return make_deepseek_syntax(input);
    case OutputFormat::kMistral:
      return make_mistral_syntax(input);
    case OutputFormat::kPlain:
    case OutputFormat::kHarmony:
      break;
  }
  return nullptr;
}

}  // namespace vernier
