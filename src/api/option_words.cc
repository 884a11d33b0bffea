#include "api/option_words.h"

namespace vernier {

Result<CodecId> parse_cache_type(std::string_view option, std::string_view text) {
  if (text == "auto" || text == "f16" || text == "fp16" || text == "float16") return CodecId::kF16;
  if (text == "f32" || text == "fp32" || text == "float32") return CodecId::kF32;
  if (text == "bf16" || text == "bfloat16") return CodecId::kBF16;
  return unsupported("{} {}: expected auto (f16), f32, f16 or bf16; narrower caches are not built yet", option, text);
}

Result<Numerics> parse_numerics(std::string_view option, std::string_view text) {
  if (text == "fast") return Numerics::kFast;
  if (text == "exact") return Numerics::kExact;
  return invalid_argument("{} {}: expected fast or exact", option, text);
}

}  // namespace vernier
