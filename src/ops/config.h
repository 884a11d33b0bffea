#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/result.h"

namespace vernier {

/// A model's configuration in Hugging Face spelling, read strictly: every key is read, or listed as one that changes no
/// arithmetic, or `finish` is an error that names it. GGUF metadata arrives here in the same spelling. Not copied; one
/// thread.
class Config {
 public:
  Config(nlohmann::json tree, std::string where);

  const std::string& where() const { return where_; }
  bool has(std::string_view key) const;       ///< present and not null; does not count as read
  bool contains(std::string_view key) const;  ///< present, null included; does not count as read

  Result<int64_t> integer(std::string_view key);  ///< required
  Result<int64_t> integer(std::string_view key, int64_t fallback);
  Result<double> number(std::string_view key);
  Result<double> number(std::string_view key, double fallback);
  Result<bool> boolean(std::string_view key, bool fallback);
  Result<std::string> text(std::string_view key);
  Result<std::string> text(std::string_view key, std::string fallback);
  Result<std::optional<int64_t>> optional_integer(std::string_view key);
  /// The raw value, null if absent; counts as read.
  const nlohmann::json& raw(std::string_view key);

  /// Keys that change no arithmetic of a forward pass.
  void ignore(std::initializer_list<std::string_view> keys);
  /// An error naming each key that was neither read nor ignored. A null asks for nothing and passes.
  Status finish() const;

 private:
  nlohmann::json tree_;
  std::string where_;
  std::set<std::string, std::less<>> read_;
};

}  // namespace vernier
