#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/json_body.h"

namespace vernier {

/// The routes that take a body of many fields, as bits.
enum FieldRoute : uint16_t {
  kOnChat = 1,
  kOnText = 2,  ///< /v1/completions
  kOnResponses = 4,
  kOnEmbeddings = 8,
  kOnGenerate = 16,  ///< the body of /generate
  kOnSampling = 32,  ///< its sampling_params
  kOnTokenize = 64,
  kOnDetokenize = 128,
};

/// The fields of one body, checked against the table of all fields: each is known on its route, of its type and in its
/// range, or the body is refused with the field's name. Null counts as absent. Aliases are found under the one name
/// that the rest of the server knows.
class Fields {
 public:
  /// `where` goes before the names in refusals ("sampling_params."). Under `strict` an unknown field is refused; else
  /// it is noted among the ignored.
  static Result<Fields> check(const Json& body, FieldRoute route, bool strict, std::string_view where = "");

  const Json* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  std::optional<double> number(std::string_view name) const;
  std::optional<int64_t> integer(std::string_view name) const;
  std::optional<std::string> text(std::string_view name) const;
  bool flag(std::string_view name, bool otherwise = false) const;
  /// As the caller spelt it, with `where`.
  std::string spelling(std::string_view name) const;

  /// Fields that were given and change nothing: unknown ones, and known ones without effect here.
  const std::vector<std::string>& ignored() const { return ignored_; }
  void ignore(std::string_view name) { ignored_.emplace_back(name); }

 private:
  struct Found {
    std::string_view name;  // canonical; of the table
    std::string spelling;
    const Json* value;
  };

  std::vector<Found> found_;
  std::vector<std::string> ignored_;
  std::string where_;
};

/// A refusal of one field; `where` becomes the error's param.
template <class... Args>
Error bad_field(std::string where, fmt::format_string<Args...> format, Args&&... args) {
  return Error{ErrorCode::kInvalidArgument, fmt::format(format, std::forward<Args>(args)...), std::move(where)};
}

/// "a string", "an array", ...: what a value is, for messages.
std::string_view describe_json(const Json& value);

/// A number without a fraction, within 64 bits: 5, and 5.0 as some clients write it.
std::optional<int64_t> as_integer(const Json& value);

}  // namespace vernier
