#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "server/exchange.h"
#include "server/gate.h"
#include "server/request_parser.h"
#include "server/route_workers.h"

/// What the server and its connections share. Included by the two files that speak Asio, by no other.
namespace vernier {

using StreamSocket = boost::asio::basic_stream_socket<boost::asio::generic::stream_protocol,
                                                      boost::asio::strand<boost::asio::io_context::executor_type>>;

class Connection;

/// Counters of the transport; all null where nothing is counted.
struct TransportMetrics {
  explicit TransportMetrics(MetricRegistry* registry);
  void request_ended(std::string_view route, int status, double seconds);

  MetricRegistry* registry;
  Counter* clients_gone = nullptr;
  Counter* clients_lagged = nullptr;
  Counter* timeouts = nullptr;
  Counter* connections_refused = nullptr;
  Gauge* connections = nullptr;
  Gauge* requests = nullptr;
};

/// Lives until the last connection has gone. The connections' threads are the server's.
struct Transport {
  Transport(HttpServer::Options given, Router router);

  const HttpServer::Options options;
  const Gate gate;
  TransportMetrics metrics;
  boost::asio::io_context io;
  std::unique_ptr<RouteWorkers> workers;
  std::atomic<bool> draining{false};
  std::atomic<size_t> under_way{0};
  std::atomic<size_t> failed_in_drain{0};  // answers under way when draining began that ended with an error

  std::mutex mutex;  // of `open`
  std::unordered_map<Connection*, std::weak_ptr<Connection>> open;
};

/// One client's connection: reads requests, one at a time, gives each to a route, sends its answer. All on its strand.
class Connection : public ExchangeOwner, public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<Transport> transport, StreamSocket socket, std::string remote);

  /// Serves it. `refused`: one too many; it is told so and closed.
  void start(bool refused);

  // Any thread.
  void wake() override;
  /// Looks at the deadlines if the first of them has passed.
  void sweep(int64_t now_ns);
  /// Ends the answer under way with an error, or closes an idle connection.
  void cut_off();
  void close_now();

 private:
  enum class Due { kIdle, kHeader, kBody, kWrite, kLinger, kExchange };

  void read_more();
  void on_readable();
  void on_end_of_input();
  void process();
  bool feed_parser();
  void on_head();
  void refuse(HttpResponse answer);
  void open_exchange(bool keep_alive);
  void run_route();
  void flush();
  void write_some();
  void on_written(const boost::system::error_code& ec, size_t bytes);
  void end_exchange();
  void linger();
  void close();
  void log_access(double seconds);
  void update_deadline();
  void on_deadline();
  void post(void (Connection::*what)());

  const std::shared_ptr<Transport> transport_;
  StreamSocket socket_;
  const std::string remote_;
  std::atomic<int64_t> due_ns_;
  Due due_ = Due::kIdle;

  // Of the request that is read.
  std::string in_;
  size_t in_begin_ = 0;
  std::unique_ptr<RequestParser> parser_;
  bool head_seen_ = false;
  GateDecision decision_;
  int64_t since_ns_;  // idle since, or the first byte of the request

  // Of the request that is answered.
  std::shared_ptr<Exchange> exchange_;
  std::string request_line_;  // method and path, for the log
  std::string route_;
  int64_t exchange_since_ns_ = 0;
  uint64_t answer_bytes_ = 0;

  std::string out_;
  size_t out_begin_ = 0;
  bool out_last_ = false;
  int64_t progress_ns_ = 0;
  bool writing_ = false;

  bool waiting_ = false;  // for input
  bool input_ended_ = false;
  bool refused_by_drain_ = false;  // the request came while the server drained
  bool deaf_ = false;              // what comes is no request any more
  bool lingering_ = false;
  bool closed_ = false;
};

}  // namespace vernier
