#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "server/http_message.h"
#include "server/router.h"

namespace vernier {

/// A key. It prints as ***; only a comparison sees it, which takes as long for a near miss as for a far one.
class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string text) : text_(std::move(text)) {}

  bool empty() const { return text_.empty(); }
  /// Time depends on the length of `given` alone.
  bool equals(std::string_view given) const;

 private:
  std::string text_;
};

/// One key a line; blank lines and lines that begin with # are skipped. An empty file is an error: it would open the
/// server that it was meant to close.
Result<std::vector<Secret>> read_key_file(const std::string& path);

/// Which keys open which routes.
class ApiKeys {
 public:
  ApiKeys() = default;
  /// An admin key opens everything. Without one, admin routes are closed where `keys` are set.
  ApiKeys(std::vector<Secret> keys, Secret admin) : keys_(std::move(keys)), admin_(std::move(admin)) {}

  bool required() const { return !keys_.empty() || !admin_.empty(); }

  enum class Standing { kNone, kUser, kAdmin };
  /// By `Authorization: Bearer KEY` (any case) or `x-api-key: KEY`. kAdmin for all where no key is set.
  Standing standing(const HeaderList& headers) const;
  static bool admits(Standing standing, Access access);

 private:
  std::vector<Secret> keys_;
  Secret admin_;
};

}  // namespace vernier

template <>
struct fmt::formatter<vernier::Secret> : fmt::formatter<fmt::string_view> {
  template <class Context>
  auto format(const vernier::Secret&, Context& context) const {
    return fmt::formatter<fmt::string_view>::format("***", context);
  }
};
