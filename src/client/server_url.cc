#include "client/server_url.h"

#include <algorithm>
#include <charconv>

namespace vernier {
namespace {

bool is_port(std::string_view text) {
  int port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && end == text.data() + text.size() && port > 0 && port < 65536;
}

bool plain(std::string_view text) {
  return std::ranges::all_of(text,
                             [](unsigned char c) { return c > ' ' && c < 127 && c != '@' && c != '?' && c != '#'; });
}

}  // namespace

std::string ServerUrl::authority() const {
  return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + port;
}

Result<ServerUrl> parse_server_url(std::string_view text) {
  const std::string whole(text);
  if (text.starts_with("https://")) {
    return unsupported(
        "{}: this client speaks no TLS; give the http:// address of the server itself, or of a proxy on this machine "
        "that ends TLS",
        whole);
  }
  if (const size_t scheme = text.find("://"); scheme != std::string_view::npos) {
    if (text.substr(0, scheme) != "http") return invalid_argument("{}: expected http://HOST:PORT", whole);
    text.remove_prefix(scheme + 3);
  }
  ServerUrl url;
  url.port = "80";
  const size_t slash = std::min(text.find('/'), text.size());
  std::string_view authority = text.substr(0, slash);
  std::string_view prefix = text.substr(slash);
  while (prefix.ends_with('/')) prefix.remove_suffix(1);
  if (prefix.ends_with("/v1")) prefix.remove_suffix(3);
  url.prefix = prefix;
  std::string_view port;
  if (authority.starts_with('[')) {
    const size_t end = authority.find(']');
    if (end == std::string_view::npos) return invalid_argument("{}: '[' without ']'", whole);
    url.host = authority.substr(1, end - 1);
    port = authority.substr(end + 1);
  } else {
    const size_t colon = std::min(authority.find(':'), authority.size());
    url.host = authority.substr(0, colon);
    port = authority.substr(colon);
  }
  if (!port.empty()) {
    if (port[0] != ':' || !is_port(port.substr(1))) {
      return invalid_argument("{}: expected a port of 1 to 65535 after the host", whole);
    }
    url.port = port.substr(1);
  }
  if (url.host.empty() || !plain(url.host) || !plain(url.prefix)) {
    return invalid_argument("{}: expected http://HOST:PORT, as in http://127.0.0.1:8080", whole);
  }
  return url;
}

}  // namespace vernier
