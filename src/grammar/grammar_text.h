#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "grammar/grammar_spec.h"
#include "grammar/grammar_vocabulary.h"

namespace vernier {

struct GrammarLimits;

/// What is handed to the matching library.
struct GrammarText {
  std::string gbnf;            ///< its rule `v_root` is the whole answer, reasoning and markers included
  std::vector<int32_t> named;  ///< the marker and end tokens that it spells by id
};

/// The grammar of a spec, or the reason why there is none, with the JSON pointer of the place.
Result<GrammarText> write_grammar(const GrammarSpec& spec, const GrammarVocabulary& vocabulary,
                                  const GrammarLimits& limits);

}  // namespace vernier
