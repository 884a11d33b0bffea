#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "app/model_flags.h"

namespace vernier {

/// `vernier tune MODEL`, and the draft model that runs beside it.
struct TuneRunFlags {
  ModelFlags model;
  std::string draft;        ///< empty: none
  std::string draft_store;  ///< empty: the same as the model's

  void add_to(CLI::App& command);
};

/// Loads the model, measures what is missing (or, with --tune full, all of it) and tells what was found; then the same
/// with the draft.
Status run_tune_model(const TuneRunFlags& flags, const std::vector<std::string>& forms);

/// The problems that a model's products are, loaded with the usual flags.
Result<std::vector<Problem>> problems_of_model(const std::string& model);

}  // namespace vernier
