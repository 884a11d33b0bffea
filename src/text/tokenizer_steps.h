#pragma once

#include "text/json_value.h"
#include "text/tokenizer.h"

/// The steps of a tokenizer.json: each reader appends what its member describes, Sequences flattened. A type that is
/// not known is an error that names it.
namespace vernier::tokenizer_json {

/// Sequences of sequences deeper than this are refused.
inline constexpr int kMaxDepth = 16;

Status read_normalizer(json::element value, Normalizers& out, int depth = 0);
Status read_pre_tokenizer(json::element value, PreTokenizers& out, int depth = 0);
Status read_decoder(json::element value, TokenDecoder& out, int depth = 0);
Status read_post_processor(json::element value, std::vector<TokenTemplate>& out, int depth = 0);

}  // namespace vernier::tokenizer_json
