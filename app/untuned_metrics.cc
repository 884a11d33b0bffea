#include "app/untuned_metrics.h"

#include <map>
#include <utility>

namespace vernier {

void count_untuned(MetricRegistry& registry, const std::string& model_name, std::shared_ptr<const Backend> backend) {
  struct Told {
    Counter* counter;
    Gauge* slower;
    int64_t launches = 0;
  };
  std::map<std::pair<std::string, std::string>, Told> all;
  for (const UntunedLaunches& one : backend->untuned()) {
    Counter& counter =
        registry.counter("vernier_untuned_launch_total",
                         "Products that ran without a tactic, by op and shape; vernier tune measures them.",
                         {{"model_name", model_name}, {"op", one.op}, {"shape", one.shape}});
    Gauge& slower = registry.gauge(
        "vernier_slow_tactics", "Tactics that --tune-watch saw slower in use than they were measured, by op and shape.",
        {{"model_name", model_name}, {"op", one.op}, {"shape", one.shape}});
    all.emplace(std::pair(one.op, one.shape), Told{&counter, &slower});
  }
  registry.before_exposition([all = std::move(all), weak = std::weak_ptr(backend)]() mutable {
    const auto backend = weak.lock();
    if (backend == nullptr) return;
    for (const UntunedLaunches& one : backend->untuned()) {
      const auto found = all.find({one.op, one.shape});
      if (found == all.end()) continue;
      Told& told = found->second;
      told.slower->set(static_cast<double>(one.slower));
      told.counter->add(static_cast<double>(one.launches - std::exchange(told.launches, one.launches)));
    }
  });
}

}  // namespace vernier
