#pragma once

#include <memory>
#include <string>

#include "ops/backend.h"
#include "server/metrics.h"

namespace vernier {

/// Has the registry tell how often each product that is packed by now ran without a tactic. Nothing is told once the
/// backend is gone.
void count_untuned(MetricRegistry& registry, const std::string& model_name, std::shared_ptr<const Backend> backend);

}  // namespace vernier
