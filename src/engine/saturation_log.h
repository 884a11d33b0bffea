#pragma once

#include <vector>

#include "ops/backend.h"

namespace vernier {

/// Tells once for each layer that numbers did not fit into its cache. One thread.
class SaturationLog {
 public:
  void look(const KvStore& kv, const std::vector<CacheSpec>& layers);

 private:
  std::vector<bool> told_;  // by layer
};

}  // namespace vernier
