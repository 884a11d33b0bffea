#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace vernier {

/// Where a server listens. `prefix` is what stands before every path, without a slash at its end; a `/v1` at the end of
/// what was typed is dropped, since every path names it.
struct ServerUrl {
  std::string host;
  std::string port;
  std::string prefix;

  /// As a Host field wants it: with the port, an IPv6 address in brackets.
  std::string authority() const;
  std::string to_string() const { return "http://" + authority() + prefix; }
};

/// `http://HOST[:PORT][/PREFIX]`; the scheme may be left out. Refuses https by name.
Result<ServerUrl> parse_server_url(std::string_view text);

}  // namespace vernier
