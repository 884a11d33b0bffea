#pragma once

#include <string>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "text/gguf_vocabulary.h"

namespace vernier {

/// The vocabulary of a folder's tokenizer.json as GGUF files hold one: of bytes, or of SentencePiece's pieces.
///
/// Such a file names its split rule, or gives each piece a score in place of merges. Taken is the first rule, or the
/// first scores, by which a reader makes the same ids as the tokenizer of a text with all that rules differ in, and of
/// prose; by preference one that the tokenizer's own description spells. Where there is none, the vocabulary is
/// refused.
Result<GgufVocabulary> vocabulary_of_json(const Checkpoint& checkpoint);

}  // namespace vernier
