#include "server/router.h"

#include <algorithm>
#include <optional>
#include <span>

#include "base/check.h"

namespace vernier {
namespace {

std::vector<std::string_view> segments(std::string_view path) {
  std::vector<std::string_view> out;
  size_t begin = path.starts_with('/') ? 1 : 0;
  while (true) {
    size_t end = path.find('/', begin);
    out.push_back(path.substr(begin, end - begin));
    if (end == std::string_view::npos) return out;
    begin = end + 1;
  }
}

bool is_name(std::string_view part) {
  return part.starts_with('{') && part.ends_with('}');
}
bool is_rest(std::string_view part) {
  return is_name(part) && part.ends_with("...}");
}

std::string joined(std::span<const std::string> parts) {
  std::string out;
  for (const std::string& part : parts) {
    if (!out.empty()) out += '/';
    out += part;
  }
  return out;
}

// How well a pattern fits: for each segment 2 if fixed, 1 if a name, 0 if the rest, in order. Nothing: it does not fit.
std::optional<std::string> fit(std::string_view pattern, const std::vector<std::string>& path, NamedValues& params) {
  std::vector<std::string_view> parts = segments(pattern);
  std::string rank;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i >= path.size()) return std::nullopt;
    if (is_rest(parts[i])) {
      params.emplace_back(parts[i].substr(1, parts[i].size() - 5), joined(std::span(path).subspan(i)));
      return params.back().second.empty() ? std::nullopt : std::optional(rank + '0');
    }
    if (is_name(parts[i])) {
      if (path[i].empty()) return std::nullopt;
      params.emplace_back(parts[i].substr(1, parts[i].size() - 2), path[i]);
      rank += '1';
    } else if (parts[i] == path[i]) {
      rank += '2';
    } else {
      return std::nullopt;
    }
  }
  return parts.size() == path.size() ? std::optional(rank) : std::nullopt;
}

}  // namespace

Router& Router::add(std::string method, std::string pattern, Access access, RouteFunction run) {
  CHECK(pattern.starts_with('/'), "the route {} does not begin with /", pattern);
  for (const Route& route : routes_) {
    CHECK(route.method != method || route.pattern != pattern, "the route {} {} is added twice", method, pattern);
  }
  routes_.push_back({std::move(method), std::move(pattern), access, std::move(run)});
  return *this;
}

Router::Match Router::find(std::string_view method, std::string_view raw_path) const {
  Match match;
  std::vector<std::string> path;
  if (!raw_path.starts_with('/')) return match;
  for (std::string_view segment : segments(raw_path)) {
    std::optional<std::string> decoded = percent_decoded(segment);
    if (!decoded || decoded->find('\0') != std::string::npos) return match;
    path.push_back(std::move(*decoded));
  }
  std::string best;
  for (const Route& route : routes_) {
    NamedValues params;
    std::optional<std::string> rank = fit(route.pattern, path, params);
    if (!rank) continue;
    if (std::find(match.allowed.begin(), match.allowed.end(), route.method) == match.allowed.end()) {
      match.allowed.push_back(route.method);
    }
    bool fits = route.method == method || (method == "HEAD" && route.method == "GET");
    if (fits && (match.route == nullptr || *rank > best)) {
      best = *rank;
      match.route = &route;
      match.params = std::move(params);
    }
  }
  return match;
}

}  // namespace vernier
