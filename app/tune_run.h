#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "app/model_flags.h"

namespace vernier {

/// `vernier tune MODEL`.
struct TuneRunFlags {
  ModelFlags model;

  void add_to(CLI::App& command);
};

/// Loads the model, measures what is missing (or, with --tune full, all of it) and tells what was found.
Status run_tune_model(const TuneRunFlags& flags, const std::vector<std::string>& forms);

/// The problems that a model's products are, loaded with the usual flags.
Result<std::vector<Problem>> problems_of_model(const std::string& model);

}  // namespace vernier
