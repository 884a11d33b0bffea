#pragma once

#include <nlohmann/json.hpp>
#include <random>

namespace vernier::testing {

/// A random schema of the supported keywords, with definitions that may refer to each other and to themselves.
nlohmann::ordered_json random_schema(std::mt19937_64& random);

}  // namespace vernier::testing
