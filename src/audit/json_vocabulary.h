#pragma once

#include <string>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "text/gguf_vocabulary.h"

namespace vernier {

/// The vocabulary of a folder's tokenizer.json as GGUF files hold one. The name of the split rule is the one whose rule
/// gives the same ids over a text with all that rules differ in, by preference one of the same steps; where there is
/// none, the vocabulary is refused. So is one
/// that is not of bytes: files without a SentencePiece model do not hold its scores.
Result<GgufVocabulary> vocabulary_of_json(const Checkpoint& checkpoint);

}  // namespace vernier
