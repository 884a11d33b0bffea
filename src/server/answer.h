#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "server/choice_sink.h"
#include "server/reply_writer.h"
#include "server/request_feed.h"
#include "server/served_model.h"
#include "server/server_metrics.h"
#include "text/output_reader.h"

namespace vernier {

struct AnswerOptions {
  std::string id;  ///< of the answer and, where it is the caller's own, for /abort_request
  bool stream = false;
  OutputReaderOptions reader;
  size_t choices_of_prompt = 1;  ///< consecutive requests that have one prompt
  bool keep_parts = false;       ///< for a writer that tells the order of text, reasoning and calls
  HeaderList headers;            ///< of the answer
  std::string constraint_field;  ///< that said what the answer must look like, if one did
  int64_t received_ns = 0;       ///< monotonic, when its request was there; 0: when it starts
};

/// One API request under way: it submits the choices, turns what the engine delivers into deltas, and streams them or
/// folds them into a whole answer. Lives until its last choice has ended. Any thread; the engine's delivery thread does
/// the work, so it never waits for a client.
///
/// A client that goes away, a failure of one choice, and `abort` end all choices.
class Answer : public std::enable_shared_from_this<Answer> {
 public:
  Answer(const ServedModel& model, ServerMetrics& metrics, AnswerOptions options, std::unique_ptr<ReplyWriter> writer,
         std::shared_ptr<ResponseStream> response);

  ~Answer();

  /// Submits them, one choice each. If one is refused the answer is that error.
  void start(std::vector<Request> requests);
  /// Ends it with an error. False if it had ended before.
  bool abort();

  const std::string& id() const { return options_.id; }

 private:
  friend class ChoiceSink<Answer>;
  struct Choice;

  void take(size_t index, RequestUpdate update);
  void take_tokens(size_t index, const std::vector<SampledToken>& tokens);
  void count_prompt(size_t index);
  /// Of an answer that nobody waits for any more: told when the engine is done with its last choice.
  void account_late(size_t index, const RequestLedger& ledger);
  /// The engine's ledger with what came before and after it: sums to the time since the request was received.
  RequestLedger whole_ledger(RequestLedger ledger) const;
  void tell(size_t index, std::vector<OutputDelta>& deltas);
  void end_choice(size_t index, const Finished& finished, const RequestLedger& ledger);
  void finish();
  /// Lets more choices into the engine.
  void feed();
  void fail(const Error& error);
  void client_gone();

  const ServedModel& model_;
  ServerMetrics& metrics_;
  AnswerOptions options_;
  std::unique_ptr<ReplyWriter> writer_;
  EventStream events_;

  std::mutex mutex_;  // guards all below
  RequestFeed feed_;
  std::vector<Choice> choices_;
  std::vector<ChoiceResult> results_;
  std::vector<bool> prompts_counted_;  // [prompts]
  size_t open_choices_ = 0;
  bool ended_ = false;  // answered, failed or given up: nothing more is told
  bool left_ = false;   // given up
  int64_t start_ns_ = 0;
  int64_t first_token_ns_ = 0;
};

}  // namespace vernier
