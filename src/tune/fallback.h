#pragma once

#include "tune/choice.h"

namespace vernier {

/// The kernel that the chosen one stands in for: the first before it that this chip would run, were the problem of
/// another size or under other scales, or that a chip with more capabilities would. Null where there is none. A kernel
/// built for more instructions is none: which level runs is the machine's, and each level has its own.
const Candidate* stood_in_for(const Choice& choice);

}  // namespace vernier
