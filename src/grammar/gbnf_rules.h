#pragma once

#include <string_view>

#include "base/result.h"

namespace vernier {

/// Refuses a caller's grammar where `root` leads to a rule without a finite text, as `a ::= "x" a`: an answer that
/// enters one never ends. What it cannot read it passes over; the matching library then says what is wrong.
Status check_finite_rules(std::string_view gbnf);

}  // namespace vernier
