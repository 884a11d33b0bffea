#pragma once

#include <memory>
#include <optional>

#include "api/loaded_model.h"
#include "api/tune_model.h"
#include "vernier/vernier.h"

namespace vernier {

/// What an engine's options say of tactics.
struct LibraryTactics {
  std::shared_ptr<TacticStore> store;  ///< in memory where no folder is named; null: the backend has none
  std::optional<TuneRequest> tune;     ///< of what is measured while the engine opens

  static Result<LibraryTactics> read(const vernier_engine_options& options, const BackendOptions& backend);
  /// Measures what is asked for.
  Status settle(const LoadedModel& model) const;
};

}  // namespace vernier
