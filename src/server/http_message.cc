#include "server/http_message.h"

#include <algorithm>
#include <array>

namespace vernier {
namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = lower(c);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

struct StatusName {
  int status;
  std::string_view name;
};
constexpr std::array kStatusNames = {
    StatusName{100, "Continue"},
    StatusName{200, "OK"},
    StatusName{201, "Created"},
    StatusName{202, "Accepted"},
    StatusName{204, "No Content"},
    StatusName{301, "Moved Permanently"},
    StatusName{302, "Found"},
    StatusName{304, "Not Modified"},
    StatusName{307, "Temporary Redirect"},
    StatusName{400, "Bad Request"},
    StatusName{401, "Unauthorized"},
    StatusName{403, "Forbidden"},
    StatusName{404, "Not Found"},
    StatusName{405, "Method Not Allowed"},
    StatusName{406, "Not Acceptable"},
    StatusName{408, "Request Timeout"},
    StatusName{409, "Conflict"},
    StatusName{413, "Content Too Large"},
    StatusName{414, "URI Too Long"},
    StatusName{415, "Unsupported Media Type"},
    StatusName{417, "Expectation Failed"},
    StatusName{422, "Unprocessable Content"},
    StatusName{429, "Too Many Requests"},
    StatusName{431, "Request Header Fields Too Large"},
    StatusName{499, "Client Closed Request"},
    StatusName{500, "Internal Server Error"},
    StatusName{501, "Not Implemented"},
    StatusName{503, "Service Unavailable"},
    StatusName{504, "Gateway Timeout"},
    StatusName{505, "HTTP Version Not Supported"},
};

}  // namespace

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return lower(x) == lower(y); });
}

const std::string* HeaderList::find(std::string_view name) const {
  for (const Field& field : fields_) {
    if (equal_ignoring_case(field.first, name)) return &field.second;
  }
  return nullptr;
}

std::string_view HeaderList::get(std::string_view name) const {
  const std::string* value = find(name);
  return value != nullptr ? std::string_view(*value) : std::string_view();
}

size_t HeaderList::count(std::string_view name) const {
  return static_cast<size_t>(std::count_if(fields_.begin(), fields_.end(),
                                           [&](const Field& field) { return equal_ignoring_case(field.first, name); }));
}

void HeaderList::add(std::string name, std::string value) {
  fields_.emplace_back(std::move(name), std::move(value));
}

void HeaderList::set(std::string_view name, std::string value) {
  std::erase_if(fields_, [&](const Field& field) { return equal_ignoring_case(field.first, name); });
  fields_.emplace_back(std::string(name), std::move(value));
}

std::optional<std::string_view> find_value(const NamedValues& values, std::string_view name) {
  for (const auto& [key, value] : values) {
    if (key == name) return value;
  }
  return std::nullopt;
}

HttpResponse HttpResponse::json(std::string body, int status) {
  return {status, {{"Content-Type", "application/json"}}, std::move(body)};
}

HttpResponse HttpResponse::text(std::string body, int status) {
  return {status, {{"Content-Type", "text/plain; charset=utf-8"}}, std::move(body)};
}

std::string_view reason_phrase(int status) {
  for (const StatusName& entry : kStatusNames) {
    if (entry.status == status) return entry.name;
  }
  return "";
}

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    int high = hex_digit(text[i + 1]), low = hex_digit(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

std::optional<NamedValues> parsed_query(std::string_view text) {
  NamedValues values;
  while (!text.empty()) {
    std::string part(text.substr(0, text.find('&')));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    if (part.empty()) continue;
    std::replace(part.begin(), part.end(), '+', ' ');
    size_t equals = std::min(part.find('='), part.size());
    std::optional<std::string> name = percent_decoded(std::string_view(part).substr(0, equals));
    std::optional<std::string> value =
        percent_decoded(std::string_view(part).substr(std::min(part.size(), equals + 1)));
    if (!name || !value) return std::nullopt;
    values.emplace_back(std::move(*name), std::move(*value));
  }
  return values;
}

}  // namespace vernier
