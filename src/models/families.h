#pragma once

#include "models/decoder_spec.h"
#include "models/encoder_spec.h"
#include "ops/config.h"

namespace vernier {

/// One reader for each family, in the file of its name. A reader takes what it knows; `read_decoder` then refuses keys
/// that it left unread.
Result<DecoderSpec> read_llama(Config& config);
Result<DecoderSpec> read_mistral(Config& config);
Result<DecoderSpec> read_qwen2(Config& config);
Result<DecoderSpec> read_qwen3(Config& config);
Result<DecoderSpec> read_qwen3_moe(Config& config);
Result<DecoderSpec> read_mixtral(Config& config);
Result<DecoderSpec> read_gpt_oss(Config& config);
Result<DecoderSpec> read_deepseek_v2(Config& config);
Result<DecoderSpec> read_deepseek_v3(Config& config);
Result<DecoderSpec> read_longcat_flash(Config& config);
Result<DecoderSpec> read_longcat_flash_ngram(Config& config);
Result<DecoderSpec> read_gemma2(Config& config);
Result<DecoderSpec> read_gemma3_text(Config& config);
Result<DecoderSpec> read_gemma3(Config& config);
Result<EncoderSpec> read_bert(Config& config);

}  // namespace vernier
