#pragma once

#include <cstdint>
#include <string>

#include "ops/attn_spec.h"
#include "ops/ops.h"

namespace vernier {

/// A dense encoder as data: everything a family's configuration decides. All its layers are equal.
struct EncoderSpec {
  std::string family;  ///< model_type, for reports
  int64_t vocab = 0;
  int64_t hidden = 0;
  int64_t ffn = 0;  ///< columns between the two products of the feed-forward part
  int64_t layers = 0;
  int64_t max_positions = 0;  ///< rows of the table of positions: a longer input has none
  int64_t token_types = 0;    ///< rows of that table; one text alone is of type 0
  AttnSpec attn;
  float norm_eps = 1e-12f;
  Act act = Act::kGelu;
};

}  // namespace vernier
