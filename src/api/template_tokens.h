#pragma once

#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "text/tokenizer.h"

namespace vernier {

/// The names under which templates know the model's special tokens: "bos_token" and the like, with their texts.
std::vector<std::pair<std::string, std::string>> template_tokens(const Checkpoint& checkpoint,
                                                                 const Tokenizer& tokenizer);

}  // namespace vernier
