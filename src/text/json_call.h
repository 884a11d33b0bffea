#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/answer_writer.h"
#include "text/json_scanner.h"

namespace vernier {

/// Reads one JSON object of a call as it comes: the arguments themselves, or an object with a name and arguments
/// (or "parameters"). The arguments stay as the model wrote them.
class JsonCall {
 public:
  enum class Form : uint8_t {
    kArguments,  ///< the object is the arguments; the name is given
    kNamed,      ///< "name" and "arguments" or "parameters", in any order; other members are passed over
    kBare,  ///< as kNamed, without other members and only for a tool of the request: nothing else marks it as a call
  };

  JsonCall(Form form, std::string name, const std::vector<OutputTool>& tools)
      : form_(form), name_(std::move(name)), tools_(&tools) {}

  /// White space before the object is passed over. Not to be called after kDone or kBroken.
  JsonScanner::State push(char c);

  bool in_string() const { return scanner_.in_string(); }
  const std::string& name() const { return name_; }
  /// The arguments as far as they came; all of them after kDone.
  std::string_view arguments() const;
  /// Whether arguments() only grows: they are an object and the name is known.
  bool may_stream() const { return !name_.empty() && arguments_begin_ != std::string::npos && !decoded_; }
  /// Bytes from the first of the object to the end of arguments().
  size_t arguments_end() const;

 private:
  bool end_member();
  JsonScanner::State step(char c);

  Form form_;
  std::string name_;
  const std::vector<OutputTool>* tools_;
  JsonScanner scanner_;
  std::string text_;
  std::string key_;
  size_t key_begin_ = std::string::npos;
  size_t value_begin_ = std::string::npos;
  size_t arguments_begin_ = std::string::npos;
  size_t arguments_end_ = std::string::npos;
  std::optional<std::string> decoded_;  // arguments that were not an object
  bool named_ = false;
};

/// One step of the reading of calls.
enum class CallStep : uint8_t {
  kMore,     ///< consumed
  kEnd,      ///< consumed, and the calls are over: text follows
  kRefused,  ///< not consumed, and no part of a call: what was read becomes text
};

/// Reads a JsonCall within the calls of a format and gives it out.
class JsonCallReader {
 public:
  JsonCallReader(PendingCall& pending, const std::vector<OutputTool>& tools) : pending_(pending), tools_(tools) {}

  void begin(JsonCall::Form form, std::string name = {});
  /// Consumes text from `at` on. True once the call is whole and given out; false with at < size if it broke there.
  bool push(std::string_view text, size_t& at, AnswerWriter::Deltas& out);
  /// A marker within a string of the JSON is a part of it; anywhere else it breaks the JSON: false.
  bool push_marker(std::string_view marker, AnswerWriter::Deltas& out);
  bool is_reading() const { return call_.has_value(); }
  void reset() { call_.reset(); }

 private:
  PendingCall& pending_;
  const std::vector<OutputTool>& tools_;
  std::optional<JsonCall> call_;
  size_t raw_begin_ = 0;  // of the object within the raw text
};

}  // namespace vernier
