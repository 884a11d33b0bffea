#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vernier {

/// Header fields in the order they came; names are compared without regard to case. Several fields of one name may
/// stand.
class HeaderList {
 public:
  using Field = std::pair<std::string, std::string>;

  HeaderList() = default;
  HeaderList(std::initializer_list<Field> fields) : fields_(fields) {}

  /// The first field of that name, or null.
  const std::string* find(std::string_view name) const;
  /// The first field of that name, or "".
  std::string_view get(std::string_view name) const;
  size_t count(std::string_view name) const;
  void add(std::string name, std::string value);
  /// Replaces every field of that name.
  void set(std::string_view name, std::string value);

  bool empty() const { return fields_.empty(); }
  auto begin() const { return fields_.begin(); }
  auto end() const { return fields_.end(); }

 private:
  std::vector<Field> fields_;
};

/// Names and values, percent-decoded, in the order they came.
using NamedValues = std::vector<std::pair<std::string, std::string>>;

/// The first value of that name, or nothing.
std::optional<std::string_view> find_value(const NamedValues& values, std::string_view name);

/// What a client asked for, whole: a route runs once the last byte of the body is there.
struct HttpRequest {
  std::string method;  ///< "GET", "POST", ...; a HEAD is shown as the GET that answers it
  std::string path;    ///< percent-decoded, without the query
  NamedValues query;   ///< of "?a=b&c"
  NamedValues params;  ///< the {names} of the route's pattern
  HeaderList headers;
  std::string body;
  std::string remote;       ///< "127.0.0.1:50312", "unix"
  std::string request_id;   ///< the client's, if it was fit to be echoed; else made up
  bool admin = false;       ///< the admin key was given, or no key is asked for at all
  bool draining = false;    ///< the server is going down: a readiness route says 503
  int64_t received_ns = 0;  ///< monotonic, when its last byte was there
};

/// An answer that is known as a whole. Length, date, request id and CORS fields are added by the server.
struct HttpResponse {
  int status = 200;
  HeaderList headers;
  std::string body;

  static HttpResponse json(std::string body, int status = 200);
  static HttpResponse text(std::string body, int status = 200);
};

/// "Not Found" of 404; "" of a status that this server never sends.
std::string_view reason_phrase(int status);

/// %41 to A. Nothing if an escape is cut or no hexadecimal number.
std::optional<std::string> percent_decoded(std::string_view text);

/// "a=1&b=%20&c" as names and values, '+' as a space. Nothing if an escape is broken.
std::optional<NamedValues> parsed_query(std::string_view text);

/// Equal but for the case of ASCII letters.
bool equal_ignoring_case(std::string_view a, std::string_view b);

}  // namespace vernier
