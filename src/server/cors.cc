#include "server/cors.h"

#include <algorithm>

namespace vernier {
namespace {

constexpr std::string_view kExposed = "X-Request-Id, X-Ignored-Params, Retry-After";
constexpr std::string_view kUsualFields = "Authorization, Content-Type, X-Api-Key, X-Request-Id, X-Client-Request-Id";
constexpr size_t kMaxFieldNames = 1024;

bool allows(const CorsOptions& options, std::string_view origin) {
  return std::any_of(options.origins.begin(), options.origins.end(),
                     [&](const std::string& allowed) { return allowed == "*" || allowed == origin; });
}

bool are_field_names(std::string_view text) {
  return !text.empty() && text.size() <= kMaxFieldNames && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == ',' || c == ' ';
  });
}

}  // namespace

HeaderList cors_fields(const CorsOptions& options, const HeaderList& request) {
  HeaderList fields;
  if (options.origins.empty()) return fields;
  bool any = std::find(options.origins.begin(), options.origins.end(), "*") != options.origins.end();
  if (!any) fields.add("Vary", "Origin");
  const std::string* origin = request.find("Origin");
  if (origin == nullptr || !allows(options, *origin)) return fields;
  fields.add("Access-Control-Allow-Origin", any ? "*" : *origin);
  fields.add("Access-Control-Expose-Headers", std::string(kExposed));
  if (options.credentials && !any) fields.add("Access-Control-Allow-Credentials", "true");
  return fields;
}

bool is_preflight(const HttpRequest& request) {
  return request.method == "OPTIONS" && request.headers.find("Origin") != nullptr &&
         request.headers.find("Access-Control-Request-Method") != nullptr;
}

HttpResponse preflight_answer(const CorsOptions& options, const HttpRequest& request,
                              const std::vector<std::string>& methods) {
  HttpResponse response{204, {}, ""};
  if (!allows(options, request.headers.get("Origin"))) return response;
  std::string names = methods.empty() ? "GET, POST, OPTIONS" : joined_by_comma(methods) + ", OPTIONS";
  std::string_view wanted = request.headers.get("Access-Control-Request-Headers");
  response.headers.add("Access-Control-Allow-Methods", std::move(names));
  response.headers.add("Access-Control-Allow-Headers", std::string(are_field_names(wanted) ? wanted : kUsualFields));
  response.headers.add("Access-Control-Max-Age", "600");
  return response;
}

std::string joined_by_comma(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) {
    if (!out.empty()) out += ", ";
    out += name;
  }
  return out;
}

}  // namespace vernier
