#include "grammar/grammar_text.h"

#include "grammar/grammar_compiler.h"

namespace vernier {

Result<OutputDialect> parse_output_dialect(std::string_view name) {
  constexpr std::string_view kNames[] = {"plain",  "hermes",      "qwen3",   "qwen3_coder",
                                         "llama3", "deepseek_v3", "mistral", "harmony"};
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (name == kNames[i]) return static_cast<OutputDialect>(i);
  }
  return invalid_argument(
      "no output format '{}'; known: plain, hermes, qwen3, qwen3_coder, llama3, deepseek_v3, mistral, harmony", name);
}

Result<GrammarText> write_grammar(const GrammarSpec& spec, const GrammarVocabulary&, const GrammarLimits& limits) {
  if (spec.text.size() > limits.text_bytes) {
    return invalid_argument("the grammar has {} bytes, at most {} are taken", spec.text.size(), limits.text_bytes);
  }
  if (spec.kind == GrammarSpec::Kind::kEbnf) return GrammarText{spec.text, {}};
  return unsupported("this kind of grammar is not built yet; a grammar in GBNF is");
}

}  // namespace vernier
