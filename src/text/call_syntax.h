#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/json_call.h"
#include "text/output_format.h"

namespace vernier {

/// How one format writes its calls, from the marker that opens them until text follows again. What it reads goes to the
/// PendingCall, raw, so that nothing is lost if it is no call.
class CallSyntax {
 public:
  virtual ~CallSyntax() = default;
  /// Calls begin: with this marker, or with nothing where a format needs none.
  virtual void open(std::string_view marker) = 0;
  /// Takes text from `at` on. With kRefused or kEnd the rest, from `at`, is not the syntax's.
  virtual CallStep text(std::string_view text, size_t& at, AnswerWriter::Deltas& out) = 0;
  virtual CallStep marker(std::string_view marker, AnswerWriter::Deltas& out) = 0;
  /// After kRefused: the end of what was read that only looked like a tag of the syntax; it may begin something else.
  virtual std::string_view unread() const { return {}; }
};

/// What the syntax of a format needs to know.
struct CallSyntaxInput {
  PendingCall* pending;
  const std::vector<OutputTool>* tools;
  bool close_in_text = false;  ///< the tokenizer has no token for the closing marker: it comes as text
};

/// Nothing for a format without calls, and for harmony.
std::unique_ptr<CallSyntax> make_call_syntax(OutputFormat format, const CallSyntaxInput& input);
std::unique_ptr<CallSyntax> make_mistral_syntax(const CallSyntaxInput& input);
std::unique_ptr<CallSyntax> make_deepseek_syntax(const CallSyntaxInput& input);
std::unique_ptr<CallSyntax> make_coder_syntax(const CallSyntaxInput& input);

/// The JSON of a value that was written as bare text, by the type its schema names; a value that does not fit is a
/// string.
std::string json_of_text(std::string_view text, const nlohmann::ordered_json& schema);

}  // namespace vernier
