#pragma once

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "server/api_keys.h"
#include "server/metrics.h"
#include "server/router.h"

namespace vernier {

/// Who may read answers in a browser, from pages of other origins.
struct CorsOptions {
  std::vector<std::string> origins;  ///< "https://app.example"; "*" stands for all and is never sent with credentials
  bool credentials = false;
};

/// HTTP/1.1 on one TCP port or UNIX socket: parses, checks sizes, times and keys, finds the route and runs it on a
/// worker thread, and carries the answer back. It knows nothing of models. Answers of one connection come in the
/// order of its requests, one request at a time.
class HttpServer {
 public:
  struct Options {
    std::string host = "127.0.0.1";
    uint16_t port = 8080;     ///< 0: any free port; ask port()
    std::string unix_socket;  ///< a path: listens there instead of on host and port
    int io_threads = 2;
    int worker_threads = 0;  ///< that run routes; 0: as many as CPUs, at least 2
    std::vector<Secret> api_keys;
    Secret admin_key;
    CorsOptions cors;

    size_t max_connections = 16384;      ///< one more is answered with 503
    size_t max_waiting_requests = 8192;  ///< that no worker has taken; one more is answered with 503
    size_t max_body_bytes = size_t{64} << 20;
    size_t max_header_bytes = size_t{64} << 10;  ///< start line and fields together
    size_t max_target_bytes = size_t{16} << 10;

    std::chrono::milliseconds header_timeout{10'000};  ///< for start line and fields, from their first byte
    std::chrono::milliseconds body_timeout{
        30'000};  ///< for the body, and 1 s more for each min_body_bytes_per_second that came
    size_t min_body_bytes_per_second = 4096;
    std::chrono::milliseconds idle_timeout{120'000};     ///< of a connection without a request
    std::chrono::milliseconds keep_alive_after{15'000};  ///< a comment in a silent event stream
    std::chrono::milliseconds write_timeout{60'000};     ///< of an ended answer of which the client takes nothing

    size_t stream_buffer_bytes = size_t{1} << 20;   ///< waiting for one client; four times this ends the stream at once
    std::chrono::milliseconds lag_timeout{30'000};  ///< over the bound for so long ends the stream with an error event
    int socket_send_buffer_bytes = 0;               ///< SO_SNDBUF; 0 leaves it to the system

    bool access_log = true;             ///< one JSON line for each request, at level info
    MetricRegistry* metrics = nullptr;  ///< outlives the server; null: counts nothing
  };

  /// Listens and serves, on threads of its own, when it returns. Refuses options that cannot work, by name.
  static Result<std::unique_ptr<HttpServer>> start(Options options, Router router);

  /// Closes every connection at once; answers not sent yet are lost. drain() first for a clean end.
  virtual ~HttpServer() = default;

  virtual uint16_t port() const = 0;        ///< the one it listens on; 0 for a UNIX socket
  virtual std::string address() const = 0;  ///< "http://127.0.0.1:8080", "unix:/run/vernier.sock"

  /// From now on new requests are refused with 503 (open routes run, and see `draining`); answers under way go on.
  /// Returns when none is left, or after `limit`, or once `hurry` is set: then the rest ends with an error event.
  /// Closes the port. True if every answer that had begun was given whole.
  virtual bool drain(std::chrono::milliseconds limit, const std::atomic<bool>* hurry = nullptr) = 0;
  virtual bool draining() const = 0;

  virtual size_t connections() const = 0;
  virtual size_t requests_under_way() const = 0;
};

/// Blocks SIGTERM, SIGINT and SIGHUP for this thread and those started after it, so that `wait` alone takes them. One
/// that is ignored when the program starts, as nohup does, stays so. Make it in main() before any thread.
class StopSignals {
 public:
  StopSignals();
  /// Waits for one of them and returns its number.
  int wait() const;
  /// After `wait`: waits for a further SIGTERM or SIGINT. A third ends the program at once.
  int wait_again() const;

 private:
  sigset_t set_;
};

}  // namespace vernier
