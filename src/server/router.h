#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/http_message.h"
#include "server/response_stream.h"

namespace vernier {

/// Who may use a route.
enum class Access {
  kOpen,   ///< anyone, also while the server drains: health and liveness
  kKey,    ///< who has a key, where keys are set
  kAdmin,  ///< who has the admin key, where keys are set
};

/// Runs on a worker thread; may answer there, or keep the pointer and answer later from any thread.
using RouteFunction = std::function<void(HttpRequest request, std::shared_ptr<ResponseStream> response)>;

/// The table of routes. Built before the server starts, constant after. A route is closed unless it is added as open.
///
/// A pattern is a path; `{name}` stands for one segment and `{name...}`, at the end, for one or more. Segments are
/// compared after percent-decoding, letter by letter: "/V1/models", "//v1/models" and "/v1/models/" are other paths.
/// A fixed segment wins over a `{name}`, and both over the rest.
class Router {
 public:
  struct Route {
    std::string method;
    std::string pattern;
    Access access = Access::kKey;
    RouteFunction run;
  };

  /// What a method and path lead to.
  struct Match {
    const Route* route = nullptr;      ///< null: nothing has this method and path
    NamedValues params;                ///< decoded values of the pattern's names
    std::vector<std::string> allowed;  ///< the methods this path has; empty: unknown path
  };

  Router& add(std::string method, std::string pattern, Access access, RouteFunction run);
  Router& get(std::string pattern, RouteFunction run) { return add("GET", std::move(pattern), Access::kKey, run); }
  Router& post(std::string pattern, RouteFunction run) { return add("POST", std::move(pattern), Access::kKey, run); }

  /// `raw_path` is still percent-encoded. HEAD finds the route of GET.
  Match find(std::string_view method, std::string_view raw_path) const;

  const std::vector<Route>& routes() const { return routes_; }

 private:
  std::vector<Route> routes_;
};

}  // namespace vernier
