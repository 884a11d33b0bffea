#include "server/exchange.h"

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/clock.h"

namespace vernier {
namespace {

constexpr size_t kHardBound = 4;  // times the soft one
/// A client that closed one side looks like one that closed both, until bytes are sent to it. Short answers need none.
constexpr int64_t kFirstProbeNs = 500'000'000;
constexpr int64_t kNextProbeNs = 5'000'000'000;

std::string http_date() {
  std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[40];
  // The C locale's names; this program sets no other.
  size_t size = std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &utc);
  return std::string(text, size);
}

// A line break in a field would let what a client sent begin a field, or an answer, of its own.
void append_field(std::string& out, std::string_view name, std::string_view value) {
  auto one_line = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c; };
  std::transform(name.begin(), name.end(), std::back_inserter(out), one_line);
  out += ": ";
  std::transform(value.begin(), value.end(), std::back_inserter(out), one_line);
  out += "\r\n";
}

bool has_no_body(int status) {
  return status < 200 || status == 204 || status == 304;
}

}  // namespace

Exchange::Exchange(ExchangeFacts facts, std::shared_ptr<ExchangeOwner> owner)
    : facts_(std::move(facts)), owner_(std::move(owner)), probe_due_ns_(kNever), keep_alive_(facts_.keep_alive) {}

Exchange::~Exchange() {
  if (reporter_) reporter_({});
}

// The callers below hold the lock.

void Exchange::wake() {
  if (owner_ == nullptr || woken_) return;
  woken_ = true;
  owner_->wake();
}

std::function<void()> Exchange::take_callback() {
  return std::exchange(callback_, nullptr);
}

void Exchange::append_head(int status, const HeaderList& headers, std::string_view length_field) {
  status_ = status;
  framed_ += fmt::format("HTTP/1.1 {} {}\r\n", status, reason_phrase(status));
  append_field(framed_, "Date", http_date());
  for (const auto& [name, value] : headers) append_field(framed_, name, value);
  for (const auto& [name, value] : facts_.fields) append_field(framed_, name, value);
  if (!keep_alive_) {
    append_field(framed_, "Connection", "close");
  } else if (facts_.http10) {
    append_field(framed_, "Connection", "keep-alive");
  }
  framed_ += length_field;
  framed_ += "\r\n";
}

void Exchange::release_head() {
  if (phase_ != Phase::kHeld) return;
  phase_ = Phase::kFlowing;
  chunked_ = !facts_.http10;
  if (!chunked_) keep_alive_ = false;
  append_head(status_, held_, chunked_ ? "Transfer-Encoding: chunked\r\n" : "");
}

void Exchange::end_stream() {
  release_head();
  phase_ = Phase::kEnded;
  wake();
}

void Exchange::end_with(const ApiError& error) {
  if (phase_ == Phase::kEnded) return;
  failed_ = true;
  if (phase_ != Phase::kFlowing) {
    HttpResponse response = error.response();
    phase_ = Phase::kEnded;
    refusal_ = response.body;
    append_head(response.status, response.headers, fmt::format("Content-Length: {}\r\n", response.body.size()));
    if (!facts_.head_only) framed_ += response.body;
    wake();
    return;
  }
  if (events_) {
    payload_ += "data: " + error.body() + "\n\ndata: [DONE]\n\n";
  } else {
    terminated_ = true;  // a body cut short must not look whole: no last chunk
  }
  keep_alive_ = false;
  end_stream();
}

// The route's side.

bool Exchange::send(HttpResponse response) {
  std::function<void()> forgotten;
  std::lock_guard lock(mutex_);
  if (lost_ || phase_ == Phase::kFlowing || phase_ == Phase::kEnded) return false;
  forgotten = take_callback();
  phase_ = Phase::kEnded;
  if (response.status >= 400) refusal_ = response.body;
  failed_ = response.status >= 500;
  std::string length;
  if (!has_no_body(response.status)) length = fmt::format("Content-Length: {}\r\n", response.body.size());
  append_head(response.status, response.headers, length);
  if (!facts_.head_only && !has_no_body(response.status)) framed_ += response.body;
  wake();
  return true;
}

bool Exchange::begin(int status, HeaderList headers) {
  std::lock_guard lock(mutex_);
  if (lost_ || gone_ || phase_ != Phase::kOpen) return false;
  phase_ = Phase::kHeld;
  status_ = status;
  events_ = headers.get("Content-Type").starts_with("text/event-stream");
  held_ = std::move(headers);
  active_ns_ = monotonic_ns();
  wake();  // the time of the first comment is known now
  return true;
}

WriteState Exchange::write(std::string_view bytes) {
  std::lock_guard lock(mutex_);
  if (lost_ || gone_ || overflowed_ || phase_ == Phase::kOpen || phase_ == Phase::kEnded) return WriteState::kClosed;
  if (bytes.empty() || facts_.head_only) return WriteState::kTaken;
  size_t waiting = waiting_bytes() + bytes.size();
  if (waiting > facts_.buffer_bytes * kHardBound && waiting_bytes() > 0) {
    overflowed_ = true;
    woken_ = false;  // a write that hangs must not hold this back
    wake();
    return WriteState::kClosed;
  }
  release_head();
  payload_ += bytes;
  active_ns_ = monotonic_ns();
  bool full = waiting > facts_.buffer_bytes;
  if (full && over_since_ns_ == 0) {
    over_since_ns_ = active_ns_;
    woken_ = false;  // the deadline has moved
  }
  wake();
  return full ? WriteState::kFull : WriteState::kTaken;
}

void Exchange::finish() {
  std::function<void()> forgotten;
  std::lock_guard lock(mutex_);
  // A stream that had to refuse bytes has not ended well: its error is on the way.
  if (overflowed_ || phase_ == Phase::kEnded) return;
  forgotten = take_callback();
  if (phase_ == Phase::kOpen) {
    end_with(ApiError::make(500, "the request was not answered", "internal_error"));
  } else {
    end_stream();
  }
}

bool Exchange::gone() const {
  std::lock_guard lock(mutex_);
  return gone_ || lost_ || overflowed_;
}

void Exchange::on_gone(std::function<void()> callback) {
  {
    std::lock_guard lock(mutex_);
    if (phase_ == Phase::kEnded && !gone_ && !lost_) return;
    if (!gone_ && !lost_) {
      callback_.swap(callback);
      return;
    }
  }
  if (callback) callback();
}

void Exchange::account(std::vector<TimePart> parts) {
  Reporter report;
  {
    std::lock_guard lock(mutex_);
    time_parts_ = parts;
    owes_account_ = false;
    report.swap(reporter_);
  }
  if (report) report(parts);
}

void Exchange::owe_account() {
  std::lock_guard lock(mutex_);
  owes_account_ = time_parts_.empty();
}

void Exchange::report_time(Reporter report) {
  std::vector<TimePart> parts;
  {
    std::lock_guard lock(mutex_);
    if (owes_account_) {
      reporter_ = std::move(report);
      return;
    }
    parts = time_parts_;
  }
  report(parts);
}

std::string Exchange::refusal() const {
  std::string body;
  {
    std::lock_guard lock(mutex_);
    body = refusal_;
  }
  constexpr size_t kMostBytes = 300;
  const auto whole = nlohmann::json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!whole.is_object() || !whole.contains("error") || !whole["error"].is_object()) return "";
  const auto message = whole["error"].value("message", nlohmann::json());
  return message.is_string() ? message.get<std::string>().substr(0, kMostBytes) : "";
}

void Exchange::abandon() {
  std::function<void()> forgotten;
  std::lock_guard lock(mutex_);
  if (overflowed_) return;
  forgotten = take_callback();
  end_with(ApiError::make(500, "the server dropped the request", "internal_error"));
}

// The connection's side.

Exchange::Output Exchange::take() {
  std::lock_guard lock(mutex_);
  woken_ = false;
  Output out;
  out.bytes.swap(framed_);
  if (chunked_ && !payload_.empty()) {
    out.bytes += fmt::format("{:x}\r\n", payload_.size());
    out.bytes += payload_;
    out.bytes += "\r\n";
  } else {
    out.bytes += payload_;
  }
  payload_.clear();
  if (phase_ == Phase::kEnded) {
    if (chunked_ && !terminated_) out.bytes += facts_.head_only ? "" : "0\r\n\r\n";
    terminated_ = true;
    out.last = true;
  }
  in_flight_bytes_ = out.bytes.size();
  return out;
}

void Exchange::sent(size_t bytes) {
  std::lock_guard lock(mutex_);
  in_flight_bytes_ -= std::min(bytes, in_flight_bytes_);
  if (waiting_bytes() <= facts_.buffer_bytes) over_since_ns_ = 0;
}

bool Exchange::send_probe(int64_t now_ns) {
  if (events_ && !facts_.head_only) {
    release_head();
    payload_ += ": keep-alive\n\n";
    active_ns_ = now_ns;
  } else if (phase_ != Phase::kFlowing) {
    if (facts_.http10) return false;
    framed_ += "HTTP/1.1 100 Continue\r\n\r\n";
  }
  wake();
  return true;
}

int64_t Exchange::tick(int64_t now_ns) {
  std::function<void()> callback;
  int64_t due = kNever;
  {
    std::lock_guard lock(mutex_);
    if (phase_ == Phase::kEnded) return kNever;
    int64_t lag_due = over_since_ns_ != 0 ? over_since_ns_ + facts_.lag_timeout.count() : kNever;
    if (overflowed_ || now_ns >= lag_due) {
      end_with(ApiError::make(500, "the client reads too slowly: its buffer was full for too long", "slow_client"));
      lagged_ = gone_ = true;
      callback = take_callback();
    } else if (events_ && !facts_.head_only) {
      if (now_ns >= active_ns_ + facts_.keep_alive_after.count()) {
        release_head();
        // A client that has not taken the last bytes needs no comment after them.
        if (waiting_bytes() <= facts_.buffer_bytes) payload_ += ": keep-alive\n\n";
        active_ns_ = now_ns;
        wake();
      }
      due = active_ns_ + facts_.keep_alive_after.count();
    }
    if (phase_ != Phase::kEnded && now_ns >= probe_due_ns_) {
      probe_due_ns_ = now_ns + kNextProbeNs;
      if (!send_probe(now_ns)) {
        gone_ = true;
        phase_ = Phase::kEnded;
        callback = take_callback();
        wake();
      }
    }
    due = std::min({due, lag_due, probe_due_ns_});
  }
  if (callback) {
    callback();
    return kNever;
  }
  return due;
}

void Exchange::close_input(int64_t now_ns) {
  std::lock_guard lock(mutex_);
  keep_alive_ = false;
  probe_due_ns_ = now_ns + kFirstProbeNs;
}

void Exchange::lose() {
  std::function<void()> callback;
  {
    std::lock_guard lock(mutex_);
    if (phase_ != Phase::kEnded) callback = take_callback();
    lost_ = gone_ = true;
    framed_.clear();
    payload_.clear();
  }
  if (callback) callback();
}

void Exchange::cut_off(const ApiError& error) {
  std::function<void()> callback;
  {
    std::lock_guard lock(mutex_);
    if (phase_ == Phase::kEnded) return;
    keep_alive_ = false;
    end_with(error);
    gone_ = true;
    callback = take_callback();
  }
  if (callback) callback();
}

void Exchange::detach() {
  std::shared_ptr<ExchangeOwner> owner;
  std::lock_guard lock(mutex_);
  owner.swap(owner_);
}

int Exchange::status() const {
  std::lock_guard lock(mutex_);
  return status_;
}

bool Exchange::must_close() const {
  std::lock_guard lock(mutex_);
  return !keep_alive_;
}

bool Exchange::ended() const {
  std::lock_guard lock(mutex_);
  return phase_ == Phase::kEnded;
}

bool Exchange::lagged() const {
  std::lock_guard lock(mutex_);
  return lagged_;
}

bool Exchange::failed() const {
  std::lock_guard lock(mutex_);
  return failed_;
}

std::string wall_time_json(const std::vector<TimePart>& parts, int64_t wall_ns) {
  double left_ms = static_cast<double>(wall_ns) * 1e-6;
  std::string out = fmt::format(",\"ms\":{:.3f}", left_ms);
  if (parts.empty()) return out;
  out += ",\"ledger\":{";
  for (const TimePart& part : parts) {
    const double ms = static_cast<double>(part.ns) * 1e-6;
    left_ms -= ms;
    out += fmt::format("\"{}\":{:.3f},", part.name, ms);
  }
  return out + fmt::format("\"client_ms\":{:.3f}}}", std::max(left_ms, 0.0));
}

}  // namespace vernier
