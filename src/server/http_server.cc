#include "server/http_server.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <csignal>
#include <cstring>
#include <thread>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "server/transport.h"

namespace vernier {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Acceptor = asio::basic_socket_acceptor<asio::generic::stream_protocol>;

constexpr auto kSweepEvery = std::chrono::milliseconds(50);
constexpr auto kAcceptPause = std::chrono::milliseconds(100);
constexpr size_t kOtherFiles = 256;     // that the process needs beside connections
constexpr size_t kRefusedAtOnce = 256;  // connections above the limit that are told so; more are closed unread

struct ListenAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
  bool loopback = false;
};

Result<ListenAddress> unix_address(const std::string& path) {
  ListenAddress out;
  auto* address = reinterpret_cast<sockaddr_un*>(&out.storage);
  if (path.size() >= sizeof address->sun_path) {
    return invalid_argument("the socket path has {} bytes; a UNIX socket takes {}", path.size(),
                            sizeof address->sun_path - 1);
  }
  address->sun_family = AF_UNIX;
  std::memcpy(address->sun_path, path.c_str(), path.size() + 1);
  out.size = sizeof(sockaddr_un);
  out.loopback = true;
  return out;
}

Result<ListenAddress> tcp_address(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  int failed = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (failed != 0) return invalid_argument("the host {} cannot be resolved: {}", host, gai_strerror(failed));
  ListenAddress out;
  std::memcpy(&out.storage, found->ai_addr, found->ai_addrlen);
  out.size = found->ai_addrlen;
  freeaddrinfo(found);
  if (out.storage.ss_family == AF_INET) {
    auto address = ntohl(reinterpret_cast<const sockaddr_in&>(out.storage).sin_addr.s_addr);
    out.loopback = address >> 24 == 127;
  } else {
    out.loopback = IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(out.storage).sin6_addr);
  }
  return out;
}

uint16_t port_of(const sockaddr* address) {
  if (address->sa_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in*>(address)->sin_port);
  if (address->sa_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6*>(address)->sin6_port);
  return 0;
}

std::string text_of(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address->sa_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof text);
    return fmt::format("{}:{}", text, port_of(address));
  }
  if (address->sa_family == AF_INET6) {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text, sizeof text);
    return fmt::format("[{}]:{}", text, port_of(address));
  }
  return "unix";
}

// A connection is a file; the soft limit is often 1024 where the hard one is a million.
void raise_file_limit(size_t connections) {
  rlimit limit{};
  rlim_t wanted = connections + kOtherFiles;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, wanted);
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < wanted) {
    log_warning("at most {} files may be open, which is too few for {} connections; raise it with ulimit -n",
                limit.rlim_cur, connections);
  }
}

Status check_options(const HttpServer::Options& options) {
  if (options.io_threads < 1) return invalid_argument("io_threads is {}; at least 1 is needed", options.io_threads);
  if (options.worker_threads < 0)
    return invalid_argument("worker_threads is {}; it is 0 or more", options.worker_threads);
  if (options.max_connections < 1) return invalid_argument("max_connections is 0; at least 1 is needed");
  if (options.max_header_bytes < 256) {
    return invalid_argument("max_header_bytes is {}; at least 256 are needed", options.max_header_bytes);
  }
  if (options.min_body_bytes_per_second < 1) return invalid_argument("min_body_bytes_per_second is 0");
  for (const std::string& origin : options.cors.origins) {
    if (origin != "*" && (origin.find("://") == std::string::npos || origin.ends_with('/'))) {
      return invalid_argument("the origin {} is none; write it as a browser sends it: https://app.example", origin);
    }
    if (origin == "*" && options.cors.credentials) {
      return invalid_argument("credentials cannot be allowed to every origin; name the origins");
    }
  }
  return {};
}

/// The acceptor and the threads; connections are Connection's.
class AsioServer : public HttpServer {
 public:
  AsioServer(Options options, Router router)
      : transport_(std::make_shared<Transport>(std::move(options), std::move(router))),
        strand_(asio::make_strand(transport_->io)),
        acceptor_(strand_),
        pause_(strand_),
        sweeper_(strand_),
        work_(transport_->io.get_executor()) {}
  ~AsioServer() override;

  Status listen();
  void serve();

  uint16_t port() const override { return port_; }
  std::string address() const override { return address_; }
  bool drain(std::chrono::milliseconds limit, const std::atomic<bool>* hurry) override;
  bool draining() const override { return transport_->draining; }
  size_t connections() const override;
  size_t requests_under_way() const override { return transport_->under_way; }

 private:
  void accept();
  void accepted(StreamSocket socket);
  void sweep();
  void for_each_connection(void (Connection::*what)());
  bool wait_until_idle(std::chrono::milliseconds limit, const std::atomic<bool>* hurry) const;
  void close_port();

  std::shared_ptr<Transport> transport_;
  asio::strand<asio::io_context::executor_type> strand_;  // of the acceptor and the timers
  Acceptor acceptor_;
  asio::steady_timer pause_;
  asio::steady_timer sweeper_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::vector<std::thread> threads_;
  std::atomic<bool> port_closed_{false};
  bool stopped_ = false;  // on the strand
  bool bound_ = false;    // the socket's file is ours to remove
  uint16_t port_ = 0;
  std::string address_;
};

Status AsioServer::listen() {
  const Options& options = transport_->options;
  TRY_BIND(ListenAddress where,
           options.unix_socket.empty() ? tcp_address(options.host, options.port) : unix_address(options.unix_socket));
  const auto* raw = reinterpret_cast<const sockaddr*>(&where.storage);
  bool tcp = raw->sa_family != AF_UNIX;
  address_ = tcp ? "http://" + text_of(raw) : "unix:" + options.unix_socket;
  error_code ec;
  acceptor_.open(asio::generic::stream_protocol(raw->sa_family, tcp ? IPPROTO_TCP : 0), ec);
  if (!ec && tcp) acceptor_.set_option(asio::socket_base::reuse_address(true), ec);
  if (!ec) acceptor_.bind(asio::generic::stream_protocol::endpoint(raw, where.size), ec);
  if (!ec) acceptor_.listen(asio::socket_base::max_listen_connections, ec);
  if (ec) return make_error(ErrorCode::kUnavailable, "{} cannot be listened on: {}", address_, ec.message());
  bound_ = true;
  if (tcp) {
    auto local = acceptor_.local_endpoint(ec);
    port_ = port_of(local.data());
    address_ = "http://" + text_of(local.data());
  }
  if (!where.loopback && options.api_keys.empty() && options.admin_key.empty()) {
    log_warning("{} can be reached from other machines and no API key is set: anyone may use this server", address_);
  }
  raise_file_limit(options.max_connections);
  return {};
}

void AsioServer::serve() {
  const Options& options = transport_->options;
  int workers = options.worker_threads > 0 ? options.worker_threads : std::max(2, usable_cpus());
  transport_->workers = std::make_unique<RouteWorkers>(workers, options.max_waiting_requests);
  asio::post(strand_, [this] {
    accept();
    sweep();
  });
  for (int i = 0; i < options.io_threads; ++i) {
    threads_.emplace_back([io = &transport_->io] { io->run(); });
  }
}

void AsioServer::accept() {
  if (port_closed_) return;
  acceptor_.async_accept(asio::make_strand(transport_->io), [this](const error_code& ec, StreamSocket socket) {
    if (port_closed_) return;
    if (!ec) {
      accepted(std::move(socket));
    } else if (ec == asio::error::no_descriptors || ec == asio::error::no_memory || ec.value() == ENFILE ||
               ec.value() == ENOBUFS) {
      // The connection stays in the kernel's queue until a file is free; trying at once would only burn time.
      log_warning("a connection waits: {}", ec.message());
      pause_.expires_after(kAcceptPause);
      pause_.async_wait([this](const error_code&) { accept(); });
      return;
    }
    accept();
  });
}

void AsioServer::accepted(StreamSocket socket) {
  const Options& options = transport_->options;
  error_code ec;
  auto peer = socket.remote_endpoint(ec);
  if (ec) return;
  if (peer.data()->sa_family != AF_UNIX) {
    int on = 1;
    setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  if (options.socket_send_buffer_bytes > 0) {
    socket.set_option(asio::socket_base::send_buffer_size(options.socket_send_buffer_bytes), ec);
  }
  auto connection = std::make_shared<Connection>(transport_, std::move(socket), text_of(peer.data()));
  size_t open = 0;
  {
    std::lock_guard lock(transport_->mutex);
    open = transport_->open.size();
    if (open < options.max_connections + kRefusedAtOnce) transport_->open.emplace(connection.get(), connection);
  }
  TransportMetrics& metrics = transport_->metrics;
  bool refused = open >= options.max_connections;
  if (refused && metrics.connections_refused) metrics.connections_refused->add();
  if (open >= options.max_connections + kRefusedAtOnce) return;
  if (metrics.connections) metrics.connections->set(static_cast<double>(open + 1));
  connection->start(refused);
}

void AsioServer::sweep() {
  if (stopped_) return;
  {
    int64_t now = monotonic_ns();
    std::lock_guard lock(transport_->mutex);
    for (auto& [key, weak] : transport_->open) {
      if (auto connection = weak.lock()) connection->sweep(now);
    }
  }
  sweeper_.expires_after(kSweepEvery);
  sweeper_.async_wait([this](const error_code& ec) {
    if (!ec) sweep();
  });
}

void AsioServer::for_each_connection(void (Connection::*what)()) {
  std::lock_guard lock(transport_->mutex);
  for (auto& [key, weak] : transport_->open) {
    if (auto connection = weak.lock()) (connection.get()->*what)();
  }
}

size_t AsioServer::connections() const {
  std::lock_guard lock(transport_->mutex);
  return transport_->open.size();
}

bool AsioServer::wait_until_idle(std::chrono::milliseconds limit, const std::atomic<bool>* hurry) const {
  Stopwatch watch;
  while (transport_->under_way > 0) {
    if (hurry != nullptr && *hurry) return false;
    if (watch.elapsed_ns() > std::chrono::nanoseconds(limit).count()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

bool AsioServer::drain(std::chrono::milliseconds limit, const std::atomic<bool>* hurry) {
  constexpr auto kCutOffTime = std::chrono::milliseconds(2000);  // for the error event to leave
  transport_->draining = true;
  bool clean = wait_until_idle(limit, hurry);
  for_each_connection(&Connection::cut_off);
  if (!clean) wait_until_idle(kCutOffTime, nullptr);
  close_port();
  return clean && transport_->failed_in_drain == 0;
}

void AsioServer::close_port() {
  if (port_closed_.exchange(true)) return;
  asio::post(strand_, [this] {
    error_code ignored;
    acceptor_.close(ignored);
    pause_.cancel();
  });
  if (bound_ && !transport_->options.unix_socket.empty()) ::unlink(transport_->options.unix_socket.c_str());
}

AsioServer::~AsioServer() {
  close_port();
  // On the strand of the acceptor, so that no connection comes after it. When all are closed the threads run out of
  // work.
  asio::post(strand_, [this] {
    stopped_ = true;
    sweeper_.cancel();
    for_each_connection(&Connection::close_now);
  });
  work_.reset();
  for (std::thread& thread : threads_) thread.join();
  transport_->workers.reset();
}

}  // namespace

Transport::Transport(HttpServer::Options given, Router router)
    : options(std::move(given)), gate(options, std::move(router)), metrics(options.metrics), io(options.io_threads) {}

TransportMetrics::TransportMetrics(MetricRegistry* given) : registry(given) {
  if (registry == nullptr) return;
  clients_gone =
      &registry->counter("vernier_http_clients_gone_total", "Clients that hung up before their answer ended.");
  clients_lagged =
      &registry->counter("vernier_http_clients_lagged_total", "Streams ended because the client read too slowly.");
  timeouts = &registry->counter("vernier_http_request_timeouts_total", "Requests that did not come in time.");
  connections_refused =
      &registry->counter("vernier_http_connections_refused_total", "Connections above the limit of connections.");
  connections = &registry->gauge("vernier_http_connections", "Open connections.");
  requests = &registry->gauge("vernier_http_requests_under_way", "Requests whose answer has not ended.");
}

void TransportMetrics::request_ended(std::string_view route, int status, double seconds) {
  if (registry == nullptr) return;
  // Patterns, not paths: a client must not be able to make series.
  std::string name(route.empty() ? "none" : route);
  registry
      ->counter("vernier_http_requests_total", "Answers by route and status.",
                {{"route", name}, {"status", std::to_string(status)}})
      .add();
  registry
      ->histogram("vernier_http_request_seconds", "From the last byte of a request to the last of its answer.",
                  latency_bounds(), {{"route", name}})
      .observe(seconds);
}

Result<std::unique_ptr<HttpServer>> HttpServer::start(Options options, Router router) {
  TRY_STATUS(check_options(options));
  auto server = std::make_unique<AsioServer>(std::move(options), std::move(router));
  TRY_STATUS(server->listen());
  server->serve();
  return std::unique_ptr<HttpServer>(std::move(server));
}

StopSignals::StopSignals() {
  sigemptyset(&set_);
  for (int signal : {SIGTERM, SIGINT, SIGHUP}) {
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    // One that is ignored, as under nohup, stays so.
    if (action.sa_handler != SIG_IGN) sigaddset(&set_, signal);
  }
  pthread_sigmask(SIG_BLOCK, &set_, nullptr);
}

int StopSignals::wait() const {
  int signal = 0;
  while (sigwait(&set_, &signal) != 0) {
  }
  // Who sends one to a process and to its group means one.
  const auto twins_end = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  while (std::chrono::steady_clock::now() < twins_end) {
    const timespec moment{0, 10'000'000};
    sigtimedwait(&set_, nullptr, &moment);
  }
  return signal;
}

int StopSignals::wait_again() const {
  sigset_t again = set_;
  sigdelset(&again, SIGHUP);  // a terminal that closes meanwhile hurries nobody
  int signal = 0;
  while (sigwait(&again, &signal) != 0) {
  }
  pthread_sigmask(SIG_UNBLOCK, &again, nullptr);
  return signal;
}

}  // namespace vernier
