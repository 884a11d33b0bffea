#include "server/gate.h"

#include <algorithm>
#include <random>

#include "server/api_error.h"
#include "server/cors.h"

namespace vernier {
namespace {

HttpResponse refused_key(ApiKeys::Standing standing, const HeaderList& headers) {
  if (standing == ApiKeys::Standing::kUser) {
    return ApiError::make(403, "this route asks for the admin key", "admin_key_required").response();
  }
  bool given = headers.find("Authorization") != nullptr || headers.find("x-api-key") != nullptr;
  HttpResponse response = ApiError::make(401,
                                         given ? "the API key is not one of this server's"
                                               : "no API key was given; send it as 'Authorization: Bearer KEY'",
                                         "invalid_api_key")
                              .response();
  response.headers.add("WWW-Authenticate", "Bearer");
  return response;
}

HttpResponse wrong_method(const HttpRequest& request, const std::vector<std::string>& allowed) {
  HttpResponse response =
      request.method == "OPTIONS"
          ? HttpResponse{204, {}, ""}
          : ApiError::make(405, fmt::format("this path takes {}", joined_by_comma(allowed)), "method_not_allowed")
                .response();
  response.headers.add("Allow", joined_by_comma(allowed));
  return response;
}

}  // namespace

GateDecision Gate::admit(const HttpRequest& request, std::string_view raw_path, bool draining) const {
  GateDecision out;
  Router::Match match = router_.find(request.method, raw_path);
  if (std::find(match.allowed.begin(), match.allowed.end(), "GET") != match.allowed.end()) {
    match.allowed.push_back("HEAD");
  }
  if (is_preflight(request)) {
    out.answer = preflight_answer(cors_, request, match.allowed);
    return out;
  }
  ApiKeys::Standing standing = keys_.standing(request.headers);
  Access access = match.route != nullptr ? match.route->access : Access::kKey;
  if (!ApiKeys::admits(standing, access)) {
    out.answer = refused_key(standing, request.headers);
  } else if (match.route == nullptr && match.allowed.empty()) {
    out.answer = ApiError::make(404, "this server has no such path", "not_found").response();
  } else if (match.route == nullptr) {
    out.answer = wrong_method(request, match.allowed);
  } else if (std::string_view coding = request.headers.get("Content-Encoding");
             !coding.empty() && !equal_ignoring_case(coding, "identity")) {
    out.answer =
        ApiError::make(415, "bodies are taken without a content coding only", "unsupported_encoding").response();
  } else if (draining && access != Access::kOpen) {
    out.answer = ApiError::make(503, "the server is shutting down", "shutting_down").response();
  } else {
    out.route = match.route;
    out.params = std::move(match.params);
    out.admin = standing == ApiKeys::Standing::kAdmin;
  }
  return out;
}

std::string chosen_request_id(const HeaderList& headers) {
  for (std::string_view name : {"X-Request-Id", "X-Client-Request-Id"}) {
    std::string_view id = headers.get(name);
    bool visible = std::all_of(id.begin(), id.end(), [](char c) { return c > 0x20 && c < 0x7f; });
    if (!id.empty() && id.size() <= 128 && visible) return std::string(id);
  }
  thread_local std::mt19937_64 random{std::random_device{}()};
  return fmt::format("req_{:016x}{:016x}", random(), random());
}

}  // namespace vernier
