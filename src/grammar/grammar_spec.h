#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace vernier {

/// How a family of models writes calls and reasoning; `kPlain` has no calls.
enum class OutputDialect : uint8_t { kPlain, kHermes, kQwen3, kQwen3Coder, kLlama3, kDeepSeekV3, kMistral, kHarmony };
Result<OutputDialect> parse_output_dialect(std::string_view name);

/// What may stand before the constrained part.
enum class ReasoningPrefix : uint8_t {
  kNone,      ///< the constraint holds from the first token
  kOpen,      ///< the prompt ended inside the reasoning: free until its end marker
  kOptional,  ///< the model may open a reasoning part first, and must close it
};

enum class ToolChoice : uint8_t {
  kAuto,      ///< text, or calls; a call is constrained from its begin marker on
  kRequired,  ///< at least one call, and no other text
  kNamed,     ///< calls of one function
};

struct GrammarFunction {
  std::string name = {};
  std::string parameters = {};  ///< JSON schema of the arguments object; empty: no arguments
  bool strict = true;  ///< false: under kAuto the arguments are any JSON object, else the schema is enforced as well
  bool operator==(const GrammarFunction&) const = default;
};

struct ToolCalls {
  std::vector<GrammarFunction> functions = {};
  ToolChoice choice = ToolChoice::kAuto;
  std::string named = {};  ///< under kNamed
  bool parallel = true;    ///< false: at most one call
  bool operator==(const ToolCalls&) const = default;
};

/// What an answer must look like. Plain data: equal specs compile to one cached grammar.
struct GrammarSpec {
  enum class Kind : uint8_t {
    kJsonSchema,  ///< `text` is a JSON schema (draft 2020-12, and the draft 7 spellings that mean the same)
    kJsonObject,  ///< any JSON object
    kRegex,       ///< `text` is a regular expression that the whole answer matches
    kEbnf,        ///< `text` is a grammar in GBNF; its rule `root` is the answer
    kChoice,      ///< one of `choices`
    kToolCalls,   ///< `tools` in the words of `dialect`
  };
  Kind kind = Kind::kJsonObject;
  std::string text = {};
  std::vector<std::string> choices = {};
  ToolCalls tools = {};
  OutputDialect dialect = OutputDialect::kPlain;
  ReasoningPrefix reasoning = ReasoningPrefix::kNone;

  bool operator==(const GrammarSpec&) const = default;
};

}  // namespace vernier
