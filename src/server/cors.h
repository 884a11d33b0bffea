#pragma once

#include "server/http_message.h"
#include "server/http_server.h"

namespace vernier {

/// The Access-Control fields of an answer; none where the request has no Origin that is allowed.
HeaderList cors_fields(const CorsOptions& options, const HeaderList& request);

/// Whether a browser asks what it may send, before it sends it.
bool is_preflight(const HttpRequest& request);

/// Its answer, beside cors_fields. `methods` are those of the path.
HttpResponse preflight_answer(const CorsOptions& options, const HttpRequest& request,
                              const std::vector<std::string>& methods);

/// "GET, POST"
std::string joined_by_comma(const std::vector<std::string>& names);

}  // namespace vernier
