#pragma once

#include <CLI/CLI.hpp>

namespace vernier {

/// Adds the forms of `vernier tune` that carry tactics from store to store: diff, merge, import, export, prune.
void add_tune_exchange(CLI::App& command);

}  // namespace vernier
