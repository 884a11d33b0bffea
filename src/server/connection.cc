#include <array>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>

#include "base/clock.h"
#include "base/log.h"
#include "server/cors.h"
#include "server/transport.h"

namespace vernier {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr size_t kReadBytes = size_t{64} << 10;
/// Requests sent ahead are read while one is answered, so that a hang-up is seen; more than this waits in the kernel.
constexpr size_t kMaxAheadBytes = size_t{256} << 10;
/// A refused request's body up to this is read to its end, so that the connection can go on.
constexpr uint64_t kSkippedBodyBytes = uint64_t{1} << 20;
constexpr int64_t kLingerNs = 5'000'000'000;
constexpr size_t kKeptBytes = 4096;  // of a buffer, while nothing is in it

int64_t ns(std::chrono::nanoseconds duration) {
  return duration.count();
}

void release_if_large(std::string& buffer) {
  buffer.clear();
  if (buffer.capacity() > kKeptBytes) std::string().swap(buffer);
}

void run_safely(const Router::Route& route, HttpRequest request, std::shared_ptr<ResponseStream> response) {
  try {
    route.run(std::move(request), response);
  } catch (const std::exception& exception) {
    log_error("route {} {} threw: {}", route.method, route.pattern, exception.what());
    response->send(ApiError::make(500, "an internal error ended the request", "internal_error").response());
  }
}

}  // namespace

Connection::Connection(std::shared_ptr<Transport> transport, StreamSocket socket, std::string remote)
    : transport_(std::move(transport)),
      socket_(std::move(socket)),
      remote_(std::move(remote)),
      due_ns_(kNever),
      since_ns_(monotonic_ns()) {}

void Connection::post(void (Connection::*what)()) {
  asio::post(socket_.get_executor(), [self = shared_from_this(), what] { (self.get()->*what)(); });
}

void Connection::wake() {
  post(&Connection::flush);
}
void Connection::close_now() {
  post(&Connection::close);
}

void Connection::sweep(int64_t now_ns) {
  int64_t due = due_ns_.load(std::memory_order_relaxed);
  // Cleared, so that a strand that is busy is not given the same call again and again.
  if (now_ns >= due && due_ns_.compare_exchange_strong(due, kNever)) post(&Connection::on_deadline);
}

void Connection::cut_off() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    if (self->closed_) return;
    if (self->exchange_) {
      self->exchange_->cut_off(ApiError::make(503, "the server is shutting down", "shutting_down"));
    } else {
      self->close();
    }
  });
}

void Connection::start(bool refused) {
  error_code ignored;
  socket_.non_blocking(true, ignored);
  asio::post(socket_.get_executor(), [self = shared_from_this(), refused] {
    if (self->closed_) return;
    if (refused) {
      self->open_exchange(false);
      self->exchange_->send(ApiError::make(503, "too many connections", "too_many_connections").response());
    }
    self->read_more();
    self->update_deadline();
  });
}

// No buffer is held while waiting: an idle connection costs what this object costs.
void Connection::read_more() {
  bool enough = exchange_ && !lingering_ && in_.size() - in_begin_ >= kMaxAheadBytes;
  if (waiting_ || closed_ || input_ended_ || enough) return;
  waiting_ = true;
  socket_.async_wait(StreamSocket::wait_read, [self = shared_from_this()](const error_code& ec) {
    self->waiting_ = false;
    if (!ec && !self->closed_) self->on_readable();
  });
}

void Connection::on_readable() {
  thread_local std::array<char, kReadBytes> buffer;
  error_code ec;
  size_t bytes = socket_.read_some(asio::buffer(buffer), ec);
  if (ec == asio::error::would_block || ec == asio::error::try_again || ec == asio::error::interrupted) {
    read_more();
    return;
  }
  if (ec == asio::error::eof) {
    on_end_of_input();
    return;
  }
  if (ec) {
    close();
    return;
  }
  if (!lingering_ && !deaf_) {
    in_.append(buffer.data(), bytes);
    process();
  }
  read_more();
  update_deadline();
}

void Connection::on_end_of_input() {
  input_ended_ = true;
  if (!exchange_ || lingering_) return close();
  exchange_->close_input(monotonic_ns());
  // The refusal of what is sent to a client that has gone altogether; reading tells no more.
  socket_.async_wait(StreamSocket::wait_error, [self = shared_from_this()](const error_code& ec) {
    if (!ec) self->close();
  });
  update_deadline();
}

void Connection::process() {
  while (!exchange_ && !closed_ && !lingering_ && feed_parser()) {
  }
  if (in_begin_ == in_.size()) {
    in_begin_ = 0;
    release_if_large(in_);
  } else if (in_begin_ > kReadBytes) {
    in_.erase(0, std::exchange(in_begin_, 0));
  }
}

// One step; false: more bytes are needed.
bool Connection::feed_parser() {
  std::string_view bytes = std::string_view(in_).substr(in_begin_);
  if (bytes.empty()) return false;
  const auto& options = transport_->options;
  if (!parser_) {
    parser_ = std::make_unique<RequestParser>(
        RequestParser::Limits{options.max_header_bytes, options.max_target_bytes, options.max_body_bytes});
    head_seen_ = false;
    since_ns_ = monotonic_ns();
  }
  size_t taken = parser_->feed(bytes);
  in_begin_ += taken;
  RequestParser::State state = parser_->state();
  if (state == RequestParser::State::kFailed) {
    refuse(parser_->error().response());
    return false;
  }
  if (state != RequestParser::State::kHeader && !head_seen_) {
    head_seen_ = true;
    on_head();
    if (exchange_) return false;
  }
  if (state == RequestParser::State::kDone) {
    run_route();
    return false;
  }
  return taken > 0;
}

void Connection::on_head() {
  decision_ = transport_->gate.admit(parser_->head(), parser_->raw_path(), transport_->draining);
  if (parser_->state() == RequestParser::State::kDone) return;
  if (decision_.answer) {
    std::optional<uint64_t> left = parser_->body_bytes_left();
    bool skip = left && *left <= kSkippedBodyBytes && !parser_->expects_continue();
    if (!skip) refuse(std::move(*decision_.answer));
    return;
  }
  if (parser_->expects_continue() && in_begin_ == in_.size() && !writing_) {
    out_ = "HTTP/1.1 100 Continue\r\n\r\n";
    out_begin_ = 0;
    out_last_ = false;
    write_some();
  }
}

void Connection::open_exchange(bool keep_alive) {
  const auto& options = transport_->options;
  ExchangeFacts facts;
  if (parser_) {
    const HttpRequest& head = parser_->head();
    facts.request_id = chosen_request_id(head.headers);
    facts.fields = cors_fields(options.cors, head.headers);
    facts.http10 = parser_->http10();
    facts.head_only = head.method == "HEAD";
    request_line_ = head.method + ' ' + head.path;
  } else {
    facts.request_id = chosen_request_id({});
    request_line_.clear();
  }
  facts.fields.add("X-Request-Id", facts.request_id);
  facts.keep_alive = keep_alive && !transport_->draining && !input_ended_;
  facts.buffer_bytes = options.stream_buffer_bytes;
  facts.keep_alive_after = options.keep_alive_after;
  facts.lag_timeout = options.lag_timeout;
  exchange_ = std::make_shared<Exchange>(std::move(facts), shared_from_this());
  exchange_since_ns_ = progress_ns_ = monotonic_ns();
  answer_bytes_ = 0;
  route_.clear();
  refused_by_drain_ = transport_->draining;
  size_t now = transport_->under_way.fetch_add(1) + 1;
  if (transport_->metrics.requests) transport_->metrics.requests->set(static_cast<double>(now));
  if (input_ended_) exchange_->close_input(exchange_since_ns_);
}

// Answered before the request is whole: what follows on this connection cannot be read as requests.
void Connection::refuse(HttpResponse answer) {
  open_exchange(false);
  exchange_->send(std::move(answer));
  parser_.reset();
  deaf_ = true;
  in_begin_ = 0;
  release_if_large(in_);
}

void Connection::run_route() {
  open_exchange(parser_->keep_alive());
  HttpRequest request = parser_->take();
  parser_.reset();
  if (decision_.answer) {
    exchange_->send(std::move(*decision_.answer));
    decision_ = {};
    return;
  }
  route_ = decision_.route->pattern;
  if (request.method == "HEAD") request.method = "GET";
  request.params = std::move(decision_.params);
  request.admin = decision_.admin;
  request.draining = transport_->draining;
  request.remote = remote_;
  request.request_id = exchange_->request_id();
  request.received_ns = exchange_since_ns_;
  std::shared_ptr<ResponseStream> response(exchange_.get(),
                                           [exchange = exchange_](ResponseStream*) { exchange->abandon(); });
  bool taken = transport_->workers->submit([route = decision_.route, request = std::move(request), response]() mutable {
    run_safely(*route, std::move(request), std::move(response));
  });
  if (!taken) response->send(ApiError::make(503, "too many requests wait", "overloaded").response());
  decision_ = {};
}

void Connection::flush() {
  if (closed_ || lingering_ || !exchange_) return;
  exchange_->tick(monotonic_ns());
  if (!writing_) {
    Exchange::Output output = exchange_->take();
    out_last_ = output.last;
    if (!output.bytes.empty()) {
      out_ = std::move(output.bytes);
      out_begin_ = 0;
      progress_ns_ = monotonic_ns();
      write_some();
    } else if (output.last) {
      end_exchange();
      return;
    }
  }
  update_deadline();
}

void Connection::write_some() {
  writing_ = true;
  socket_.async_write_some(
      asio::buffer(out_.data() + out_begin_, out_.size() - out_begin_),
      [self = shared_from_this()](const error_code& ec, size_t bytes) { self->on_written(ec, bytes); });
}

void Connection::on_written(const error_code& ec, size_t bytes) {
  writing_ = false;
  if (closed_) return;
  if (ec) {
    close();
    return;
  }
  out_begin_ += bytes;
  progress_ns_ = monotonic_ns();
  if (exchange_) {
    exchange_->sent(bytes);
    answer_bytes_ += bytes;
  }
  if (out_begin_ < out_.size()) {
    write_some();
    update_deadline();
    return;
  }
  out_begin_ = 0;
  release_if_large(out_);
  if (std::exchange(out_last_, false)) {
    end_exchange();
  } else {
    flush();
  }
}

void Connection::end_exchange() {
  bool must_close = exchange_->must_close() || input_ended_;
  if (exchange_->status() == 0 && transport_->metrics.clients_gone) transport_->metrics.clients_gone->add();
  log_access(static_cast<double>(monotonic_ns() - exchange_since_ns_) * 1e-9);
  exchange_->detach();
  exchange_.reset();
  since_ns_ = monotonic_ns();
  if (must_close && (deaf_ || !input_ended_ || in_begin_ == in_.size())) {
    linger();
    return;
  }
  // Requests that were sent ahead; those of a client that has closed its side too.
  process();
  if (!exchange_ && input_ended_) {
    close();
    return;
  }
  read_more();
  update_deadline();
}

// Closing while the client still sends would reset the connection and may destroy the answer on its way: the client is
// told that nothing follows, and what it sends is thrown away for a while.
void Connection::linger() {
  if (input_ended_) {
    close();
    return;
  }
  lingering_ = true;
  release_if_large(in_);
  in_begin_ = 0;
  error_code ignored;
  socket_.shutdown(StreamSocket::shutdown_send, ignored);
  since_ns_ = monotonic_ns();
  read_more();
  update_deadline();
}

void Connection::close() {
  if (closed_) return;
  closed_ = true;
  due_ns_ = kNever;
  error_code ignored;
  socket_.close(ignored);
  if (exchange_) {
    const bool left = !exchange_->ended() && !exchange_->gone();
    if (left && transport_->metrics.clients_gone) transport_->metrics.clients_gone->add();
    exchange_->lose();
    log_access(static_cast<double>(monotonic_ns() - exchange_since_ns_) * 1e-9);
    exchange_->detach();
    exchange_.reset();
  }
  std::lock_guard lock(transport_->mutex);
  transport_->open.erase(this);
  if (Gauge* open = transport_->metrics.connections) open->set(static_cast<double>(transport_->open.size()));
}

// The end of an exchange, told to the log and to the counters.
void Connection::log_access(double seconds) {
  constexpr int kClientClosed = 499;
  int status = exchange_->status() != 0 ? exchange_->status() : kClientClosed;
  TransportMetrics& metrics = transport_->metrics;
  if (transport_->draining && !refused_by_drain_ && exchange_->failed()) ++transport_->failed_in_drain;
  size_t left = transport_->under_way.fetch_sub(1) - 1;
  if (metrics.requests) metrics.requests->set(static_cast<double>(left));
  if (metrics.clients_lagged && exchange_->lagged()) metrics.clients_lagged->add();
  metrics.request_ended(route_, status, seconds);
  // What asks for health wants to hear of 503.
  const bool refused = status >= 400 && status != kClientClosed && !route_.starts_with("/health");
  const LogLevel level = refused ? LogLevel::kWarning : LogLevel::kInfo;
  if (!transport_->options.access_log || log_level() > level) return;
  std::string line = R"({"request_id":)";
  append_json_string(line, exchange_->request_id());
  line += R"(,"remote":)";
  append_json_string(line, remote_);
  line += R"(,"request":)";
  append_json_string(line, std::string_view(request_line_).substr(0, 256));
  line += fmt::format(R"(,"status":{},"bytes":{})", status, answer_bytes_);
  if (refused) {
    line += R"(,"error":)";
    append_json_string(line, exchange_->refusal());
  }
  // What a client has left takes time until the engine is done with it.
  exchange_->report_time([level, since_ns = exchange_since_ns_, line = std::move(line)](const auto& parts) {
    log(level, "{}{}}}", line, wall_time_json(parts, monotonic_ns() - since_ns));
  });
}

void Connection::update_deadline() {
  if (closed_) return;
  const auto& options = transport_->options;
  auto set = [this](Due what, int64_t when) {
    due_ = what;
    due_ns_.store(when, std::memory_order_relaxed);
  };
  if (lingering_) {
    set(Due::kLinger, since_ns_ + kLingerNs);
  } else if (exchange_ && exchange_->ended()) {
    set(Due::kWrite, progress_ns_ + ns(options.write_timeout));
  } else if (exchange_) {
    set(Due::kExchange, exchange_->tick(monotonic_ns()));
  } else if (parser_ && head_seen_) {
    auto earned = static_cast<double>(parser_->body_bytes()) / static_cast<double>(options.min_body_bytes_per_second);
    set(Due::kBody, since_ns_ + ns(options.body_timeout) + static_cast<int64_t>(earned * 1e9));
  } else if (parser_) {
    set(Due::kHeader, since_ns_ + ns(options.header_timeout));
  } else {
    set(Due::kIdle, since_ns_ + ns(options.idle_timeout));
  }
}

void Connection::on_deadline() {
  if (closed_) return;
  update_deadline();
  if (due_ == Due::kExchange) {
    flush();
    return;
  }
  if (due_ns_.load(std::memory_order_relaxed) > monotonic_ns()) return;
  if (due_ == Due::kHeader || due_ == Due::kBody) {
    if (transport_->metrics.timeouts) transport_->metrics.timeouts->add();
    refuse(ApiError::make(408, "the request did not come in time", "request_timeout").response());
    update_deadline();
  } else {
    close();
  }
}

}  // namespace vernier
