#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"
#include "tune/tactic.h"

namespace vernier {

// Parts of records and of what ranks tell each other, as JSON. Whatever is read may be damaged: each refuses what is
// absent or of another type, naming the key.

nlohmann::json facts_to_json(const Facts& facts);
nlohmann::json kernel_to_json(const NamedKernel& named);

Result<const nlohmann::json*> json_member(const nlohmann::json& object, const char* key, nlohmann::json::value_t type);
Result<std::string> json_text(const nlohmann::json& object, const char* key);
Result<int64_t> json_count(const nlohmann::json& object, const char* key);  ///< from 0
Result<double> json_time(const nlohmann::json& object, const char* key);    ///< nanoseconds, finite, from 0
Result<Facts> json_facts(const nlohmann::json& object, const char* key);
Result<NamedKernel> json_kernel(const nlohmann::json& object);

}  // namespace vernier
