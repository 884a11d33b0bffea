#pragma once

#include <string>

#include "checkpoint/checkpoint.h"
#include "text/tokenizer.h"

namespace vernier {

/// The tokenizer of an opened model: its tokenizer.json, else the vocabulary in its GGUF metadata. Refused where there
/// is none.
Result<Tokenizer> load_tokenizer(const TokenizerSource& source);
/// Of a tokenizer.json, a folder with one, a GGUF file or a model's folder; reads no weights.
Result<Tokenizer> load_tokenizer(const std::string& path);

}  // namespace vernier
