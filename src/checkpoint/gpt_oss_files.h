#pragma once

#include "checkpoint/checkpoint_parts.h"

namespace vernier {

/// The folder is one of those that OpenAI published first ("original/"): names of their own, Q, K and V in one matrix.
bool is_original_gpt_oss(const nlohmann::json& config);
/// To Hugging Face's spelling; keys that are not known stay for the model's reader to refuse.
Status respell_gpt_oss_config(nlohmann::json& config);
/// The tensors of such a folder under Hugging Face's names, without a copy. Sizes are those of the respelled `config`.
Status respell_gpt_oss_tensors(const nlohmann::json& config, std::vector<StoredTensor>& tensors);

}  // namespace vernier
