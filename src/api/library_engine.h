#pragma once

#include <memory>
#include <string>

#include "api/library_request.h"
#include "vernier/vernier.h"

namespace vernier {

/// What a vernier_engine is: a served model and the thread that runs its callbacks. The model's threads end on
/// whichever thread closes it, and no code of a user runs on one of them; so no owner can end on its own thread.
class LibraryEngine {
 public:
  static Result<std::unique_ptr<LibraryEngine>> open(const std::string& path, const vernier_engine_options& options);
  explicit LibraryEngine(std::shared_ptr<const ServedModel> model, int64_t weight_bytes = 0);

  /// Its requests end as cancelled. Returns after the last callback; called by one of its callbacks, the engine itself
  /// stays until the rest has been told.
  static void close(std::unique_ptr<LibraryEngine> engine);

  Result<vernier_request*> submit(const vernier_request_options& options, LibraryRequest::Listener listener);
  OpenModel& model() const { return *model_; }
  int64_t weight_bytes() const { return weight_bytes_; }

  static LibraryEngine& of(const vernier_engine* handle) {
    return *reinterpret_cast<LibraryEngine*>(const_cast<vernier_engine*>(handle));
  }
  vernier_engine* handle() { return reinterpret_cast<vernier_engine*>(this); }

 private:
  std::shared_ptr<OpenModel> model_;
  CallbackThread callbacks_;
  const int64_t weight_bytes_;  // in memory
};

}  // namespace vernier
