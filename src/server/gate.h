#pragma once

#include <optional>
#include <string_view>

#include "server/http_server.h"

namespace vernier {

/// What happens to a request whose fields are there: it is answered at once, or runs on a route.
struct GateDecision {
  std::optional<HttpResponse> answer;
  const Router::Route* route = nullptr;  ///< where there is no answer
  NamedValues params;
  bool admin = false;
};

/// Keys, methods and paths, in the order that tells a stranger least: preflight, 401 or 403, 404, 405, 415, 503. A path
/// that is unknown is closed as a known one is.
class Gate {
 public:
  Gate(const HttpServer::Options& options, Router router)
      : cors_(options.cors), keys_(options.api_keys, options.admin_key), router_(std::move(router)) {}

  GateDecision admit(const HttpRequest& request, std::string_view raw_path, bool draining) const;

 private:
  CorsOptions cors_;
  ApiKeys keys_;
  Router router_;
};

/// The client's X-Request-Id or X-Client-Request-Id if it is 1 to 128 visible characters, else one made up.
std::string chosen_request_id(const HeaderList& headers);

}  // namespace vernier
