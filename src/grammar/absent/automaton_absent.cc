#include "grammar/automaton.h"

namespace vernier {

bool AutomatonCompiler::is_built() {
  return false;
}

Result<std::shared_ptr<const AutomatonCompiler>> AutomatonCompiler::make(const GrammarVocabularyParts&) {
  return unsupported(
      "structured output is not built into this program: it was compiled without XGrammar; run tools/fetch_third_party "
      "and build again");
}

}  // namespace vernier
