#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace vernier {

/// In which order the cuts act; see docs/user-guide.md.
enum class SamplerDialect : uint8_t {
  kOpenAI,  ///< temperature, min_p, top_k, top_p, each on what the one before left
  kSglang,  ///< temperature, then top_k and top_p both on the whole distribution; with min_p one after another
  kLlama,   ///< top_k, top_p, min_p, temperature last
  kMlx,     ///< top_p, min_p, top_k, temperature last
};

/// A change to one token's logit: plus bias, then repetition (divides a positive logit, multiplies another), then minus
/// `penalty`; under kSglang minus penalty, then repetition, then plus bias. A bias of -infinity bans the token.
struct LogitEdit {
  int32_t token = 0;
  float bias = 0;
  float repetition = 1;
  float penalty = 0;
};

/// Temperatures below take the largest logit, ties to the lowest id.
inline constexpr float kGreedyBelow = 1e-5F;

/// How the next token of one row is drawn. Equal specs over equal logits draw the same token on every backend.
struct SampleSpec {
  float temperature = 1;  ///< see kGreedyBelow
  int32_t top_k = 0;      ///< 0: off
  float top_p = 1;
  float min_p = 0;
  float typical_p =
      1;  ///< before top_p: the tokens whose surprise is nearest to the expected one, of this mass together
  SamplerDialect dialect = SamplerDialect::kOpenAI;
  uint64_t seed = 0;
  uint32_t position = 0;  ///< index of the new token among the request's generated tokens
  /// -1: no log probabilities; else the token's own and those of this many likeliest tokens.
  int32_t top_logprobs = -1;
  /// Not negative: this token is taken, not drawn; a prompt's tokens are scored so.
  int32_t forced = -1;
  std::vector<LogitEdit> edits = {};
  /// Bit i % 32 of mask[i / 32] says whether token i may be drawn: a grammar's mask, one bit for each logit. Empty: all
  /// may. No other field can bring a masked token back. The words must live until the token is drawn.
  std::span<const uint32_t> mask = {};
  std::span<const uint32_t> allowed = {};  ///< a second such mask: the request's own
  /// Tokens from this one on are unknown to the tokenizer, which a head may be wider than: they have probability 0,
  /// whatever stands there. 0: all are known.
  int32_t known_tokens = 0;

  /// How many of a row's logits are of known tokens.
  int64_t known_of(int64_t logits) const {
    return known_tokens > 0 && known_tokens < logits ? int64_t{known_tokens} : logits;
  }
};

/// A token and the natural log of its softmax probability before edits and cuts.
struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0;
};

struct SampledToken {
  int32_t token = 0;
  float logprob = 0;              ///< 0 unless the spec asks
  std::vector<TokenLogprob> top;  ///< likeliest first, ties by id; as many as the spec asks
};

/// One result for each row of logits: a row may fail alone.
using SampledRows = std::vector<Result<SampledToken>>;

/// e^x and ln x by float32 polynomials of our own: the same bits on every backend. `portable_exp` is for x <= 0 and
/// gives 0 below -87; `portable_log` is for positive normal numbers.
float portable_exp(float x);
float portable_log(float x);

/// The hash behind the noise: MurmurHash3-32 over seed low, seed high, position, token.
uint32_t noise_hash(uint64_t seed, uint32_t position, uint32_t token);
/// Gumbel noise -ln(-ln u) of that hash; lies in [-3.11, 16.64].
float gumbel_noise(uint64_t seed, uint32_t position, uint32_t token);

/// The definition of sampling on host logits, [vocab]; overwrites them. A NaN is an error, never a token, and so is a
/// row of which the mask and the edits leave nothing.
Result<SampledToken> sample_row(std::span<float> logits, const SampleSpec& spec);

}  // namespace vernier
