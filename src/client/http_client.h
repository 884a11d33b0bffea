#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "client/reply_parser.h"
#include "client/server_url.h"

namespace vernier {

/// How long a client waits. An Error of this room says in `where` which kind of failure it is: "connect", "timeout",
/// "hang-up", "malformed" or "cancelled".
struct ClientLimits {
  double connect_s = 10;
  double silence_s = 120;                        ///< without a byte from the server
  double total_s = 3600;                         ///< for one exchange
  const std::atomic<bool>* cancelled = nullptr;  ///< looked at every 50 ms at least
};

struct ClientRequest {
  std::string method = "GET";
  std::string path = {};
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> fields = {};  ///< beside Host and the body's length
  size_t chunk_bytes = 0;                                        ///< above 0: the body goes in chunks of so many bytes
};

/// A whole answer.
struct ClientReply {
  ReplyHead head;
  std::string body;
};

/// One connection to a server over POSIX sockets: HTTP/1.1, kept open from request to request. Opened when first
/// needed, and once again where the server had closed it between two requests. One thread at a time.
class HttpClient {
 public:
  explicit HttpClient(ServerUrl url, ClientLimits limits = {}) : url_(std::move(url)), limits_(limits) {}
  ~HttpClient() { close(); }
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// Sends and hands the body to the sink as it comes. A sink that has had enough ends the exchange: "cancelled".
  /// `sent_ns` gets the time after the request's last byte.
  Result<ReplyHead> exchange(const ClientRequest& request, const BodySink& sink, int64_t* sent_ns = nullptr);
  Result<ClientReply> ask(const ClientRequest& request);

  /// For requests that this client would not make: bytes as they are, then one answer.
  Status send_raw(std::string_view bytes);
  Result<ClientReply> read_raw(bool to_head = false);

  bool connected() const { return socket_ >= 0; }
  void close();
  const ServerUrl& url() const { return url_; }
  std::string spell(const ClientRequest& request) const;

 private:
  Status connect();
  Status send_all(std::string_view bytes);
  Result<ReplyHead> receive(bool to_head, const BodySink& sink);
  Status wait(short events, int64_t until_ns, const char* what) const;
  void start_clock();

  ServerUrl url_;
  ClientLimits limits_;
  int socket_ = -1;
  int64_t deadline_ns_ = 0;
  bool answered_ = false;  // a byte of this answer has come
  std::string early_;      // bytes that came after the last answer's end
};

}  // namespace vernier
