#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "ops/sample_math.h"
#include "ops/sample_spec.h"

// Built with -ffp-contract=off: a fused multiply-add would round differently where the machine has one.

namespace vernier {
namespace {

constexpr float kLargestNoise = 16.64F;  // gumbel_noise at u = 1 - 2^-24
constexpr float kBanned = -std::numeric_limits<float>::infinity();

struct TokenScore {
  int32_t token;
  float score;  // logit, divided by the temperature where the dialect has done so
};

bool higher(const TokenScore& a, const TokenScore& b) {
  return a.score > b.score || (a.score == b.score && a.token < b.token);
}

size_t mask_words(size_t tokens) {
  return (tokens + 31) / 32;
}

void apply_mask(std::span<float> logits, std::span<const uint32_t> mask) {
  for (size_t first = 0; first < logits.size(); first += 32) {
    uint32_t banned = ~mask[first / 32];
    if (banned == ~0U) {
      std::fill(logits.begin() + static_cast<std::ptrdiff_t>(first),
                logits.begin() + static_cast<std::ptrdiff_t>(std::min(logits.size(), first + 32)), kBanned);
      continue;
    }
    if (logits.size() - first < 32) banned &= (1U << (logits.size() - first)) - 1;
    for (; banned != 0; banned &= banned - 1) logits[first + static_cast<size_t>(std::countr_zero(banned))] = kBanned;
  }
}

/// The first of the largest. Eight running maxima: one alone waits for each comparison.
size_t largest_of(std::span<const float> logits) {
  constexpr size_t kLanes = 8;
  constexpr size_t kPart = 1024;
  float most = logits[0];
  size_t holder = 0;  // where the part begins that holds it
  for (size_t first = 0; first < logits.size(); first += kPart) {
    std::span<const float> part = logits.subspan(first, std::min(kPart, logits.size() - first));
    std::array<float, kLanes> lanes;
    lanes.fill(part[0]);
    size_t i = 0;
    for (; i + kLanes <= part.size(); i += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] = std::max(lanes[lane], part[i + lane]);
    }
    for (; i < part.size(); ++i) lanes[0] = std::max(lanes[0], part[i]);
    const float largest = *std::ranges::max_element(lanes);
    if (largest > most) most = largest, holder = first;
  }
  auto begin = logits.begin() + static_cast<std::ptrdiff_t>(holder);
  return static_cast<size_t>(std::find(begin, logits.end(), most) - logits.begin());
}

void apply_edit(float& logit, const LogitEdit& edit, SamplerDialect dialect) {
  auto repeat = [&] { logit = logit > 0 ? logit / edit.repetition : logit * edit.repetition; };
  if (dialect == SamplerDialect::kSglang) {
    logit -= edit.penalty;
    if (edit.repetition != 1) repeat();
    logit += edit.bias;
  } else {
    logit += edit.bias;
    if (edit.repetition != 1 && logit != kBanned) repeat();
    logit -= edit.penalty;
  }
}

/// The kept tokens, best first as far as they have been ordered. Cuts act on weights exp(score - best) as 32-bit fixed
/// point, so that their sums do not depend on the order of addition.
class Candidates {
 public:
  explicit Candidates(std::vector<TokenScore> tokens) : tokens_(std::move(tokens)) {
    best_ = *std::ranges::min_element(tokens_, higher);
  }

  void keep_top_k(int32_t k) {
    if (k <= 0 || static_cast<size_t>(k) >= tokens_.size()) return;
    order(static_cast<size_t>(k));
    tokens_.resize(static_cast<size_t>(k));
  }

  /// The smallest best-first prefix whose mass reaches p of all that is left; at least one.
  void keep_top_p(float p) {
    if (p < 1) tokens_.resize(prefix_of_mass(p));
  }

  void keep_min_p(float min_p) {
    if (min_p <= 0) return;
    auto below = [&](const TokenScore& t) {
      return portable_exp(t.score - best_.score) < min_p && t.token != best_.token;
    };
    size_t ordered = ordered_;
    if (std::erase_if(tokens_, below) > 0) ordered_ = std::min(ordered, tokens_.size());
  }

  /// The tokens whose surprise is nearest to the expected one, until their mass reaches p. The likeliest may go.
  void keep_typical(float p) {
    if (p >= 1) return;
    order(tokens_.size());  // so that the sums are added in one order
    double mass = 0, weighted = 0;
    for (const TokenScore& t : tokens_) {
      mass += weight(t);
      weighted += static_cast<double>(weight(t)) * static_cast<double>(best_.score - t.score);
    }
    const double expected = weighted / mass;  // both surprises less the same ln of the sum of weights
    auto distance = [&](const TokenScore& t) {
      return std::fabs(static_cast<double>(best_.score - t.score) - expected);
    };
    std::ranges::stable_sort(tokens_, {}, distance);
    double kept_mass = 0;
    size_t kept = 0;
    while (kept < tokens_.size() && (kept == 0 || kept_mass < static_cast<double>(p) * mass)) {
      kept_mass += weight(tokens_[kept++]);
    }
    tokens_.resize(kept);
    best_ = *std::ranges::min_element(tokens_, higher);
    ordered_ = 0;
  }

  /// Both cuts on the distribution as it was before either.
  void keep_joint(int32_t k, float p) {
    size_t by_mass = p < 1 ? prefix_of_mass(p) : tokens_.size();
    size_t by_count = k > 0 ? std::min<size_t>(static_cast<size_t>(k), tokens_.size()) : tokens_.size();
    size_t kept = std::min(by_mass, by_count);
    if (kept < tokens_.size()) order(kept);
    tokens_.resize(kept);
  }

  void divide(float temperature) {
    for (TokenScore& t : tokens_) t.score /= temperature;
    best_.score /= temperature;
  }

  /// The largest score + noise; ties to the lowest id.
  int32_t draw(uint64_t seed, uint32_t position) const {
    auto noisy = [&](const TokenScore& t) {
      return t.score + gumbel_noise(seed, position, static_cast<uint32_t>(t.token));
    };
    TokenScore winner{best_.token, noisy(best_)};
    for (const TokenScore& t : tokens_) {
      if (t.score + kLargestNoise < winner.score || t.token == best_.token) continue;
      TokenScore contender{t.token, noisy(t)};
      if (higher(contender, winner)) winner = contender;
    }
    return winner.token;
  }

 private:
  uint32_t weight(const TokenScore& t) const { return sample_math::weight_of(t.score - best_.score); }

  /// Puts the best `count` tokens first, in order.
  void order(size_t count) {
    if (count <= ordered_) return;
    auto from = tokens_.begin() + static_cast<std::ptrdiff_t>(ordered_);
    auto middle = tokens_.begin() + static_cast<std::ptrdiff_t>(count);
    if (middle != tokens_.end()) std::nth_element(from, middle - 1, tokens_.end(), higher);
    std::sort(from, middle, higher);
    ordered_ = count;
  }

  size_t prefix_of_mass(float p) {
    uint64_t total = 0;
    for (const TokenScore& t : tokens_) total += weight(t);
    const double target = static_cast<double>(p) * static_cast<double>(total);
    uint64_t mass = 0;
    size_t count = 0;
    while (count < tokens_.size() && (count == 0 || static_cast<double>(mass) < target)) {
      if (count == ordered_) order(std::min(tokens_.size(), std::max<size_t>(64, 4 * count)));
      mass += weight(tokens_[count++]);
    }
    return count;
  }

  std::vector<TokenScore> tokens_;
  TokenScore best_;
  size_t ordered_ = 0;
};

/// The token's own log probability and those of the likeliest.
void add_logprobs(std::span<const float> logits, const SampleSpec& spec, SampledToken& sampled) {
  const float largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (float logit : logits) sum += static_cast<double>(portable_exp(logit - largest));
  const double log_sum = std::log(sum);
  auto logprob = [&](float logit) { return static_cast<float>(static_cast<double>(logit - largest) - log_sum); };
  sampled.logprob = logprob(logits[static_cast<size_t>(sampled.token)]);
  const size_t count = std::min(static_cast<size_t>(spec.top_logprobs), logits.size());
  if (count == 0) return;
  std::vector<TokenScore> tokens(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) tokens[i] = {static_cast<int32_t>(i), logits[i]};
  std::partial_sort(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(count), tokens.end(), higher);
  for (size_t i = 0; i < count; ++i) sampled.top.push_back({tokens[i].token, logprob(tokens[i].score)});
}

int32_t draw_token(std::span<float> logits, float best_logit, const SampleSpec& spec) {
  const bool uncut = spec.top_k <= 0 && spec.top_p >= 1 && spec.min_p <= 0 && spec.typical_p >= 1;
  std::vector<TokenScore> tokens;
  // Left out at once: without cuts, what no noise can lift above the best, which has at least -3.11 of it; under top_p,
  // what weighs nothing in fixed point (below e^-22.2 of the best), since the mass is reached before it.
  const bool temperature_last = spec.dialect == SamplerDialect::kLlama || spec.dialect == SamplerDialect::kMlx;
  float floor = kBanned;
  if (uncut) floor = best_logit - (kLargestNoise + 3.12F) * spec.temperature;
  if (spec.top_p < 1) floor = best_logit - sample_math::kUnseenBelow * (temperature_last ? 1.0F : spec.temperature);
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] != kBanned && logits[i] >= floor) tokens.push_back({static_cast<int32_t>(i), logits[i]});
  }
  Candidates candidates(std::move(tokens));
  switch (spec.dialect) {
    case SamplerDialect::kOpenAI:
      candidates.divide(spec.temperature);
      candidates.keep_min_p(spec.min_p);
      candidates.keep_top_k(spec.top_k);
      candidates.keep_typical(spec.typical_p);
      candidates.keep_top_p(spec.top_p);
      break;
    case SamplerDialect::kSglang:
      candidates.divide(spec.temperature);
      candidates.keep_typical(spec.typical_p);
      if (spec.min_p > 0) {
        candidates.keep_top_k(spec.top_k);
        candidates.keep_top_p(spec.top_p);
        candidates.keep_min_p(spec.min_p);
      } else {
        candidates.keep_joint(spec.top_k, spec.top_p);
      }
      break;
    case SamplerDialect::kLlama:
      candidates.keep_top_k(spec.top_k);
      candidates.keep_typical(spec.typical_p);
      candidates.keep_top_p(spec.top_p);
      candidates.keep_min_p(spec.min_p);
      candidates.divide(spec.temperature);
      break;
    case SamplerDialect::kMlx:
      candidates.keep_typical(spec.typical_p);
      candidates.keep_top_p(spec.top_p);
      candidates.keep_min_p(spec.min_p);
      candidates.keep_top_k(spec.top_k);
      candidates.divide(spec.temperature);
      break;
  }
  return candidates.draw(spec.seed, spec.position);
}

Status check_row(std::span<const float> logits, const SampleSpec& spec) {
  if (logits.empty()) return invalid_argument("no logits to sample from");
  bool any_nan = false;
  for (float logit : logits) any_nan |= logit != logit;
  if (any_nan) {
    return make_error(ErrorCode::kInternal, "a logit is NaN; the model or its scales are damaged: no token is drawn");
  }
  if (!spec.allowed.empty() && spec.allowed.size() != mask_words(logits.size())) {
    return invalid_argument("the list of allowed tokens has {} words, {} tokens need {}", spec.allowed.size(),
                            logits.size(), mask_words(logits.size()));
  }
  if (!spec.mask.empty() && spec.mask.size() != mask_words(logits.size())) {
    return make_error(ErrorCode::kInternal, "a grammar's mask has {} words, {} tokens need {}: no token is drawn",
                      spec.mask.size(), logits.size(), mask_words(logits.size()));
  }
  for (const LogitEdit& edit : spec.edits) {
    if (edit.token < 0 || static_cast<size_t>(edit.token) >= logits.size()) {
      return invalid_argument("a logit edit names token {}, the vocabulary has {}", edit.token, logits.size());
    }
  }
  return {};
}

Error nothing_left(const SampleSpec& spec) {
  if (spec.mask.empty()) return invalid_argument("every token is banned; allow at least one");
  bool any_allowed = std::ranges::any_of(spec.mask, [](uint32_t word) { return word != 0; });
  if (!any_allowed) {
    return invalid_argument(
        "the grammar allows no further token here and no end: it has a dead end; change the grammar");
  }
  return invalid_argument(
      "every token that the grammar allows here is banned by the request itself (logit_bias, allowed_token_ids, "
      "banned_sequences or bad_words, min_tokens); allow at least one");
}

void hide_unknown(std::span<float> logits, const SampleSpec& spec) {
  std::ranges::fill(logits.subspan(static_cast<size_t>(spec.known_of(std::ssize(logits)))), kBanned);
}

/// Overwrites the logits with the edited ones.
Result<int32_t> draw_edited(std::span<float> logits, const SampleSpec& spec) {
  // The mask stands before the edits, so that they see what the grammar leaves, and after them: -infinity survives a
  // bias, but not a repetition factor of 0 or a bias of +infinity.
  if (!spec.mask.empty()) apply_mask(logits, spec.mask);
  if (!spec.allowed.empty()) apply_mask(logits, spec.allowed);
  for (const LogitEdit& edit : spec.edits) apply_edit(logits[static_cast<size_t>(edit.token)], edit, spec.dialect);
  if (!spec.mask.empty() && !spec.edits.empty()) apply_mask(logits, spec.mask);
  if (!spec.edits.empty()) hide_unknown(logits, spec);
  const size_t best = largest_of(logits);
  if (logits[best] == kBanned) return nothing_left(spec);
  if (spec.temperature < kGreedyBelow) return static_cast<int32_t>(best);
  return draw_token(logits, logits[best], spec);
}

}  // namespace

float portable_exp(float x) {
  return sample_math::exp_of(x);
}
float portable_log(float x) {
  return sample_math::log_of(x);
}
uint32_t noise_hash(uint64_t seed, uint32_t position, uint32_t token) {
  return sample_math::hash_of(seed, position, token);
}
float gumbel_noise(uint64_t seed, uint32_t position, uint32_t token) {
  return sample_math::noise_of(seed, position, token);
}

Result<SampledToken> sample_row(std::span<float> logits, const SampleSpec& spec) {
  hide_unknown(logits, spec);
  TRY_STATUS(check_row(logits, spec));
  std::vector<float> raw;
  if (spec.top_logprobs >= 0 && !(spec.edits.empty() && spec.mask.empty() && spec.allowed.empty()))
    raw.assign(logits.begin(), logits.end());
  SampledToken sampled;
  if (spec.forced >= 0) {
    CHECK(static_cast<size_t>(spec.forced) < logits.size(), "token {} is forced, of {}", spec.forced, logits.size());
    if (!spec.mask.empty() && (spec.mask[static_cast<size_t>(spec.forced / 32)] >> (spec.forced % 32) & 1U) == 0) {
      return make_error(ErrorCode::kInternal, "token {} is forced, and the grammar's mask does not allow it",
                        spec.forced);
    }
    sampled.token = spec.forced;
  } else {
    TRY_BIND(sampled.token, draw_edited(logits, spec));
  }
  if (spec.top_logprobs >= 0) {
    add_logprobs(raw.empty() ? std::span<const float>(logits) : std::span<const float>(raw), spec, sampled);
  }
  return sampled;
}

}  // namespace vernier
