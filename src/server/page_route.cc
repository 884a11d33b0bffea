#include "server/page_route.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "server/page_files.h"

namespace vernier {
namespace {

constexpr std::string_view kIndex = "index.html";
// Only this server's own files and routes: nothing inline, nothing of another origin, and no frame around the page.
constexpr std::string_view kPolicy =
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'";

std::string_view content_type(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> kTypes[] = {
      {".html", "text/html; charset=utf-8"},
      {".css", "text/css; charset=utf-8"},
      {".js", "text/javascript; charset=utf-8"},
      {".svg", "image/svg+xml"},
  };
  for (const auto& [suffix, type] : kTypes) {
    if (name.ends_with(suffix)) return type;
  }
  return "application/octet-stream";
}

/// If-None-Match: a list of tags, each perhaps weak, or "*".
bool names_tag(std::string_view list, std::string_view tag) {
  return list == "*" || list.find(tag) != std::string_view::npos;
}

RouteFunction serve_file(const PageFile& file) {
  return
      [file, tag = fmt::format("\"{}\"", file.digest)](HttpRequest request, std::shared_ptr<ResponseStream> response) {
        HttpResponse answer;
        answer.headers.add("ETag", tag);
        // Kept by the browser, and asked about each time: a new program's page is seen at once.
        answer.headers.add("Cache-Control", "no-cache");
        answer.headers.add("Content-Security-Policy", std::string(kPolicy));
        answer.headers.add("X-Content-Type-Options", "nosniff");
        answer.headers.add("Referrer-Policy", "no-referrer");
        if (names_tag(request.headers.get("If-None-Match"), tag)) {
          answer.status = 304;
        } else {
          answer.headers.add("Content-Type", std::string(content_type(file.name)));
          answer.body = file.text;
        }
        response->send(std::move(answer));
      };
}

}  // namespace

void add_page_routes(Router& router) {
  for (const PageFile& file : page_files()) {
    const std::string path = file.name == kIndex ? "/" : fmt::format("/page/{}", file.name);
    router.add("GET", path, Access::kOpen, serve_file(file));
  }
}

}  // namespace vernier
