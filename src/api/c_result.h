#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/request.h"
#include "text/output_parser.h"
#include "vernier/vernier.h"

namespace vernier {

/// Tokens in C's form. Their alternatives are kept here.
class CTokens {
 public:
  explicit CTokens(std::span<const SampledToken> tokens);
  std::span<const vernier_token> tokens() const { return tokens_; }

 private:
  std::vector<vernier_logprob> top_;
  std::vector<vernier_token> tokens_;
};

/// A whole answer in C's form, and what it points to. Stays where it is made.
class CResult {
 public:
  struct Parts {
    vernier_status status = VERNIER_OK;
    std::string message;
    vernier_finish finish = VERNIER_CANCELLED;
    OutputAnswer answer;
    std::vector<SampledToken> tokens;
    std::vector<float> embedding;
    std::string stop;
    size_t reasoning_tokens = 0;
    Finished finished;
    RequestLedger ledger;
  };
  explicit CResult(Parts parts);
  CResult(const CResult&) = delete;
  CResult& operator=(const CResult&) = delete;
  const vernier_result& c() const { return c_; }

 private:
  const Parts parts_;
  const CTokens tokens_;
  std::vector<vernier_call> calls_;
  vernier_result c_{};
};

}  // namespace vernier
