#pragma once

#include <string_view>
#include <utility>

#include "base/result.h"

namespace vernier {

/// `where` of an error that the request's grammar is at fault for.
inline constexpr std::string_view kGrammarPlace = "grammar";

inline Error of_grammar(Error error) {
  error.where = kGrammarPlace;
  return error;
}

}  // namespace vernier
