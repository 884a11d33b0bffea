#include "api/c_result.h"

namespace vernier {

CTokens::CTokens(std::span<const SampledToken> tokens) {
  size_t alternatives = 0;
  for (const SampledToken& token : tokens) alternatives += token.top.size();
  top_.reserve(alternatives);  // pointed to from now on
  tokens_.reserve(tokens.size());
  for (const SampledToken& token : tokens) {
    const vernier_logprob* first = top_.data() + top_.size();
    for (const TokenLogprob& other : token.top) top_.push_back({other.token, other.logprob});
    tokens_.push_back({token.token, token.logprob, token.top.empty() ? nullptr : first, token.top.size()});
  }
}

CResult::CResult(Parts parts) : parts_(std::move(parts)), tokens_(parts_.tokens) {
  for (const OutputCall& call : parts_.answer.calls) calls_.push_back({call.name.c_str(), call.arguments.c_str()});
  c_.status = parts_.status;
  c_.message = parts_.message.c_str();
  c_.finish = parts_.finish;
  c_.text = parts_.answer.content.c_str();
  c_.text_size = parts_.answer.content.size();
  c_.reasoning = parts_.answer.reasoning.c_str();
  c_.reasoning_size = parts_.answer.reasoning.size();
  c_.calls = calls_.data();
  c_.call_count = calls_.size();
  c_.tokens = tokens_.tokens().data();
  c_.token_count = tokens_.tokens().size();
  c_.embedding = parts_.embedding.data();
  c_.embedding_size = parts_.embedding.size();
  c_.stop = parts_.stop.c_str();
  c_.prompt_tokens = parts_.finished.prompt_tokens;
  c_.cached_tokens = parts_.finished.cached_tokens;
  c_.reasoning_tokens = static_cast<int32_t>(parts_.reasoning_tokens);
  c_.preemptions = parts_.finished.preemptions;
  const RequestLedger& ledger = parts_.ledger;
  c_.queue_ns = ledger.queue_ns;
  c_.prefill_ns = ledger.prefill_ns;
  c_.decode_ns = ledger.decode_ns;
  c_.waiting_ns = ledger.waiting_ns;
  c_.padding_ns = ledger.padding_ns;
  c_.preempted_ns = ledger.preemption_ns();
  c_.first_token_ns = ledger.first_token_ns;
}

}  // namespace vernier
