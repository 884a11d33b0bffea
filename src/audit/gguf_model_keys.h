#pragma once

#include "audit/gguf_output.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/gguf_names.h"
#include "models/decoder_spec.h"
#include "text/gguf_vocabulary.h"

namespace vernier {

/// The architecture under which GGUF files hold models of a family; null where none is written.
const GgufFamily* gguf_family_of(const DecoderSpec& spec);

/// Refuses a model of which the keys of GGUF files cannot say what it computes: a reader would compute another one.
Status check_gguf_can_tell(const GgufFamily& family, const DecoderSpec& spec);

/// What queries are multiplied by in a file, through their norm, as its readers scale scores by a head's size alone.
/// 1 for all but Gemma 3.
float query_factor(const DecoderSpec& spec);

/// The layer whose rope the keys describe: one that sees everything, where there is any.
const AttnSpec& leading_attention(const DecoderSpec& spec);

/// Sizes, windows, rope, experts, and what the model's makers advise for sampling.
void add_model_keys(const GgufFamily& family, const DecoderSpec& spec, const Checkpoint& checkpoint,
                    GgufMetadata& metadata);

/// Chat templates, and the vocabulary where there is one.
void add_vocabulary_keys(const Checkpoint& checkpoint, const std::optional<GgufVocabulary>& vocabulary,
                         GgufMetadata& metadata);

}  // namespace vernier
