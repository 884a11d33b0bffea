#include "api/option_words.h"

namespace vernier {

Result<std::optional<CodecId>> parse_cache_type(std::string_view option, std::string_view text) {
  constexpr std::pair<std::string_view, CodecId> kNames[] = {{"f32", CodecId::kF32},
                                                             {"fp32", CodecId::kF32},
                                                             {"float32", CodecId::kF32},
                                                             {"f16", CodecId::kF16},
                                                             {"fp16", CodecId::kF16},
                                                             {"float16", CodecId::kF16},
                                                             {"half", CodecId::kF16},
                                                             {"bf16", CodecId::kBF16},
                                                             {"bfloat16", CodecId::kBF16},
                                                             {"fp8", CodecId::kE4M3Tensor},
                                                             {"fp8_e4m3", CodecId::kE4M3Tensor},
                                                             {"fp8_e4m3fn", CodecId::kE4M3Tensor},
                                                             {"e4m3", CodecId::kE4M3Tensor},
                                                             {"float8_e4m3fn", CodecId::kE4M3Tensor},
                                                             {"fp8_e5m2", CodecId::kE5M2Tensor},
                                                             {"e5m2", CodecId::kE5M2Tensor},
                                                             {"float8_e5m2", CodecId::kE5M2Tensor}};
  if (text == "auto") return std::optional<CodecId>();
  for (const auto& [known, type] : kNames) {
    if (text == known) return std::optional(type);
  }
  return unsupported("{} {}: expected auto, f32, f16, bf16, fp8_e4m3 (fp8) or fp8_e5m2; other caches are not built",
                     option, text);
}

Result<FreshRows> parse_fresh_rows(std::string_view option, std::string_view text) {
  for (FreshRows fresh : {FreshRows::kStored, FreshRows::kComputed, FreshRows::kRoundTrip}) {
    if (text == name(fresh)) return fresh;
  }
  return invalid_argument("{} {}: expected paged, split or split-roundtrip", option, text);
}

Result<MissingScale> parse_missing_scale(std::string_view option, std::string_view text) {
  if (text == "warn") return MissingScale::kWarn;
  if (text == "one") return MissingScale::kOne;
  if (text == "error") return MissingScale::kError;
  return invalid_argument("{} {}: expected error, warn or one", option, text);
}

Result<Numerics> parse_numerics(std::string_view option, std::string_view text) {
  if (text == "fast") return Numerics::kFast;
  if (text == "exact") return Numerics::kExact;
  return invalid_argument("{} {}: expected fast or exact", option, text);
}

}  // namespace vernier
