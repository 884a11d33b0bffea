#pragma once

#include <string>
#include <vector>

#include "audit/quantise_checkpoint.h"

namespace vernier {

/// Everything of a Hugging Face folder but its tensors: config.json with what was quantised and how, and what lies
/// beside it: copies of the source's files, or files made of a GGUF file's metadata. `quantised` and `plain` are
/// modules with a matrix. config.json is the last, so that a folder without it is no model.
///
/// Dialects: fp8 and fp8_block are Hugging Face's "fp8" (weight_scale, weight_scale_inv); the others are
/// compressed-tensors: float-quantized, mxfp8-quantized, mxfp4-pack-quantized, nvfp4-pack-quantized.
Status write_folder_files(const Checkpoint& checkpoint, const QuantiseJob& job, const std::string& folder,
                          const std::vector<std::string>& quantised, const std::vector<std::string>& plain);

/// tokenizer.json of a GGUF vocabulary, as Hugging Face's tokenizers read it.
Result<std::string> tokenizer_json(const GgufVocabulary& vocabulary);

}  // namespace vernier
