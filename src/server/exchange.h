#pragma once

#include <chrono>
#include <limits>
#include <memory>
#include <mutex>
#include <string>

#include "server/api_error.h"
#include "server/response_stream.h"

namespace vernier {

/// A deadline that does not come, in nanoseconds of base/clock.h.
inline constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

/// Who sends what an exchange holds.
class ExchangeOwner {
 public:
  virtual ~ExchangeOwner() = default;
  /// Something may be sent now, or a deadline has moved. Any thread; returns at once and calls nothing back.
  virtual void wake() = 0;
};

/// `,"ms":N,"ledger":{...}` for the log: the wall time, and of it the parts that the route told and the rest, in which
/// the client read.
std::string wall_time_json(const std::vector<TimePart>& parts, int64_t wall_ns);

/// What an exchange must know of its request and of the server's limits.
struct ExchangeFacts {
  std::string request_id;
  HeaderList fields;  ///< of every answer: request id, CORS
  bool http10 = false;
  bool head_only = false;
  bool keep_alive = true;
  size_t buffer_bytes = 0;
  std::chrono::nanoseconds keep_alive_after{0};
  std::chrono::nanoseconds lag_timeout{0};
};

/// One request's answer on its way from a route's thread to the connection. It frames what the route gives and holds it
/// until the connection takes it. It knows no socket; the times it compares are given to it.
class Exchange : public ResponseStream {
 public:
  Exchange(ExchangeFacts facts, std::shared_ptr<ExchangeOwner> owner);
  ~Exchange() override;

  bool send(HttpResponse response) override;
  bool begin(int status, HeaderList headers) override;
  WriteState write(std::string_view bytes) override;
  void finish() override;
  bool gone() const override;
  void on_gone(std::function<void()> callback) override;
  void account(std::vector<TimePart> parts) override;
  void owe_account() override;
  const std::string& request_id() const override { return facts_.request_id; }

  /// No route can answer any more: an error stands in for the answer or the rest of it.
  void abandon();

  // The connection's side, one thread at a time.

  struct Output {
    std::string bytes;
    bool last = false;
  };
  /// What may be sent now, framed. `last`: nothing follows.
  Output take();
  /// So many bytes of what was taken left for the client.
  void sent(size_t bytes);
  /// Adds a comment, or gives up a client that lags, if it is time. Returns when to call again.
  int64_t tick(int64_t now_ns);
  /// The client closed its sending side: it is served, and asked now and then whether it reads. HTTP/1.0 has no words
  /// to ask with before the answer, and who waits for one there has gone.
  void close_input(int64_t now_ns);
  /// Nothing can be sent any more.
  void lose();
  /// Ends an answer under way with this error.
  void cut_off(const ApiError& error);
  /// After it `owner` is not called any more.
  void detach();

  int status() const;
  /// Whether the connection must close after this answer.
  bool must_close() const;
  bool ended() const;
  bool lagged() const;
  /// It is, or ends with, an error of the server's.
  bool failed() const;
  using Reporter = std::function<void(const std::vector<TimePart>& parts)>;
  /// Calls `report` once with what the route accounted for: at once, or when that is told, in whichever thread.
  void report_time(Reporter report);
  /// Why the request was refused, where it was.
  std::string refusal() const;

 private:
  // kHeld: begun, and the status has not gone out.
  enum class Phase { kOpen, kHeld, kFlowing, kEnded };

  void append_head(int status, const HeaderList& headers, std::string_view length_field);
  void release_head();
  void end_with(const ApiError& error);
  void end_stream();
  void wake();
  size_t waiting_bytes() const { return framed_.size() + payload_.size() + in_flight_bytes_; }
  std::function<void()> take_callback();
  /// Sends what a client that has closed altogether refuses to take. False: there is no such thing to send.
  bool send_probe(int64_t now_ns);

  const ExchangeFacts facts_;
  mutable std::mutex mutex_;
  std::shared_ptr<ExchangeOwner> owner_;  // null once detached
  std::function<void()> callback_;
  Phase phase_ = Phase::kOpen;
  int status_ = 0;
  std::vector<TimePart> time_parts_;
  bool owes_account_ = false;
  Reporter reporter_;    // waits for time_parts_
  std::string refusal_;  // the body that said so
  HeaderList held_;      // fields of a begun answer
  std::string framed_;   // to be sent as it is
  std::string payload_;  // to be sent as a chunk
  size_t in_flight_bytes_ = 0;
  int64_t active_ns_ = 0;  // the last time the stream said something
  int64_t over_since_ns_ = 0;
  int64_t probe_due_ns_;  // of a client that has closed its sending side
  bool events_ = false;
  bool chunked_ = false;
  bool terminated_ = false;  // the last chunk is framed
  bool keep_alive_;
  bool overflowed_ = false;  // a write was refused: the stream must end
  bool lagged_ = false;
  bool failed_ = false;
  bool gone_ = false;
  bool lost_ = false;
  bool woken_ = false;
};

}  // namespace vernier
