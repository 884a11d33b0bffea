#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "api/tune_model.h"
#include "app/model_flags.h"
#include "app/rank_flags.h"

namespace vernier {

/// `vernier tune MODEL`, and the draft model that runs beside it.
struct TuneRunFlags {
  ModelFlags model;
  std::string draft;        ///< empty: none
  std::string draft_store;  ///< empty: the same as the model's
  RankFlags ranks;

  void add_to(CLI::App& command);
};

/// Loads the model, measures what is missing (or, with --tune full, all of it) and tells what was found; then the same
/// with the draft.
Status run_tune_model(const TuneRunFlags& flags, const std::vector<std::string>& forms);

/// Before anything is loaded or measured: whether the model is there, and what is measured will be kept.
Status check_tunable(const TuneRunFlags& flags, const std::vector<std::string>& forms);
/// Prints what ranks have found together.
Status tell_tuned(TuneReport report, const TuneRunFlags& flags);

/// The problems that a model's products are, loaded with the usual flags.
Result<std::vector<Problem>> problems_of_model(const std::string& model);

}  // namespace vernier
