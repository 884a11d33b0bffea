#pragma once

#include <memory>
#include <string>

#include "checkpoint/checkpoint.h"
#include "text/gguf_vocabulary.h"
#include "text/tokenizer.h"

namespace vernier {

/// The tokenizer of an opened model: its tokenizer.json, else the vocabulary in its GGUF metadata. Refused where there
/// is none.
Result<Tokenizer> load_tokenizer(const TokenizerSource& source);
/// Of a tokenizer.json, a folder with one, a GGUF file or a model's folder; reads no weights.
Result<Tokenizer> load_tokenizer(const std::string& path);

/// What the metadata of a GGUF file say of its vocabulary.
Result<GgufVocabulary> read_vocabulary(const std::shared_ptr<const Gguf>& file);

}  // namespace vernier
