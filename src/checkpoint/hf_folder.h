#pragma once

#include <string>

#include "checkpoint/checkpoint_parts.h"

namespace vernier {

/// The tokenizer files of a folder; an empty source where there are none.
Result<TokenizerSource> folder_tokenizer(const std::string& folder);

/// Adds the chat templates of a folder in order of precedence: chat_template.jinja, additional_chat_templates/*.jinja,
/// chat_template.json, tokenizer_config.json. A name that two sources spell differently is taken from the first, with a
/// warning.
Status add_chat_templates(const std::string& folder, CheckpointParts& parts);

/// End tokens and sampling advice of config.json, generation_config.json and tokenizer_config.json together.
Status add_generation_defaults(const std::string& folder, CheckpointParts& parts);

/// What modules.json, the pooling module's config.json and sentence_bert_config.json say.
EmbeddingDefaults embedding_defaults(const std::string& folder);

/// The weights of a folder: those files that model.safetensors.index.json names, else model.safetensors, else the only
/// .safetensors file.
Status add_safetensors(const std::string& folder, CheckpointParts& parts);
/// The tensors of one file, wherever it lies.
Status add_safetensors_file(const std::string& path, CheckpointParts& parts);

/// Reads which layers are quantised, and takes the keys that say so out of the configuration, which is then the
/// model's alone. What cannot be loaded becomes the parts' refusal.
Status add_quantisation(const std::string& folder, CheckpointParts& parts);

}  // namespace vernier
