#include "server/readiness.h"

#include <string_view>

namespace vernier {
namespace {

constexpr std::array<std::string_view, 3> kNames = {"generation", "embeddings", "structured output"};

}  // namespace

void Readiness::fail(Capability what, std::string reason) {
  std::lock_guard lock(mutex_);
  failures_[static_cast<size_t>(what)] = std::move(reason);
}

std::optional<ApiError> Readiness::stage_refusal(Stage wanted) const {
  const Stage stage = stage_.load(std::memory_order_acquire);
  if (stage >= wanted) return std::nullopt;
  const char* message = stage == Stage::kLoading ? "the model is being loaded" : "the model is being warmed up";
  return ApiError::make(503, message, "model_loading");
}

std::optional<ApiError> Readiness::refusal() const {
  return stage_refusal(Stage::kWarming);
}

std::optional<ApiError> Readiness::refusal(Capability what) const {
  if (auto early = stage_refusal(Stage::kReady)) return early;
  std::lock_guard lock(mutex_);
  const auto& failure = failures_[static_cast<size_t>(what)];
  if (!failure) return std::nullopt;
  return ApiError::make(503, fmt::format("the warm-up of {} failed: {}", kNames[static_cast<size_t>(what)], *failure),
                        "warm_up_failed");
}

std::optional<ApiError> Readiness::any_refusal() const {
  for (Capability what : {Capability::kGeneration, Capability::kEmbeddings, Capability::kStructuredOutput}) {
    if (auto found = refusal(what)) return found;
  }
  return std::nullopt;
}

}  // namespace vernier
