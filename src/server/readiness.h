#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "server/api_error.h"

namespace vernier {

/// What a served model can be asked for.
enum class Capability : uint8_t { kGeneration, kEmbeddings, kStructuredOutput };

/// How far a server has come from its start to its first answer. Made ready; any thread.
class Readiness {
 public:
  enum class Stage : uint8_t { kLoading, kWarming, kReady };

  void set_stage(Stage stage) { stage_.store(stage, std::memory_order_release); }
  /// What the warm-up found not to work, and why: it is refused from now on.
  void fail(Capability what, std::string reason);

  /// Why nothing that needs the model can be answered yet; else nothing.
  std::optional<ApiError> refusal() const;
  /// The same for one thing that the model can do.
  std::optional<ApiError> refusal(Capability what) const;
  /// The same for all of it.
  std::optional<ApiError> any_refusal() const;

 private:
  static constexpr size_t kCapabilities = 3;
  std::optional<ApiError> stage_refusal(Stage wanted) const;

  std::atomic<Stage> stage_{Stage::kReady};
  mutable std::mutex mutex_;
  std::array<std::optional<std::string>, kCapabilities> failures_;
};

}  // namespace vernier
