#pragma once

#include <string_view>
#include <vector>

namespace vernier {

/// A short name that MODEL may be, and what tools/fetch_model fetches under it.
struct KnownModel {
  std::string_view name;
  std::string_view description;
};
const std::vector<KnownModel>& known_models();

}  // namespace vernier
