#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/gbnf_writer.h"
#include "grammar/grammar_spec.h"
#include "grammar/grammar_vocabulary.h"

namespace vernier {

struct GrammarLimits;

/// Writes the rules of a whole answer in the words of one family of models: its reasoning, its calls, its markers. A
/// marker is one token where the vocabulary has it, else its text.
class DialectWriter {
 public:
  DialectWriter(OutputDialect dialect, const GrammarVocabulary& vocabulary, GbnfWriter& writer)
      : dialect_(dialect), vocabulary_(vocabulary), writer_(writer) {}

  /// An answer that is `body`, after its reasoning.
  std::string answer(const std::string& body, ReasoningPrefix reasoning);
  /// An answer with calls, or text and calls under kAuto.
  Result<std::string> tool_calls(const ToolCalls& tools, ReasoningPrefix reasoning, const GrammarLimits& limits);

 private:
  struct Function {
    std::string name;
    std::string arguments;   // a rule: the JSON object
    std::string parameters;  // for kQwen3Coder: a rule for the elements of its XML
  };

  std::string marker(std::string_view text);
  /// Any text up to the marker `end`, with it.
  std::string free_text(std::string_view end);
  /// Text without markers, and from each `begin` on what `rest` says; once where `again` is false.
  std::string free_text_until(std::string_view begin, const std::string& rest, bool again);
  std::vector<std::string_view> markers() const;
  std::string reasoning(ReasoningPrefix prefix);

  Result<std::vector<Function>> read_functions(const ToolCalls& tools, const GrammarLimits& limits);
  Result<std::string> xml_parameters(const GrammarFunction& function, const GrammarLimits& limits, bool strict);
  std::string named_object(const Function& function, std::string_view arguments_key);
  std::string any_of(const std::vector<std::string>& alternatives);
  std::string calls_after_begin(const std::vector<Function>& functions, bool parallel);
  std::string json_call_list(const std::vector<Function>& functions, bool parallel);
  std::string llama_calls(const std::vector<Function>& functions, bool parallel);
  std::string harmony_analysis();
  std::string harmony_start(ReasoningPrefix prefix);
  std::string harmony_call(const std::vector<Function>& functions);
  std::string_view begin_marker() const;

  OutputDialect dialect_;
  const GrammarVocabulary& vocabulary_;
  GbnfWriter& writer_;
};

}  // namespace vernier
