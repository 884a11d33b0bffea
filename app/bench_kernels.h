#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/kernel_rows.h"
#include "app/model_flags.h"
#include "base/result.h"

namespace vernier {

/// Flags of `vernier bench kernels`.
struct BenchKernelsFlags {
  ModelFlags device;  ///< of which those of the backend are read
  std::string only;
  std::string json;
  int rounds = 6;
};

/// Adds the form `kernels` of the command; `flags` must outlive it.
CLI::App* add_bench_kernels(CLI::App& bench, BenchKernelsFlags& flags);

Status run_bench_kernels(const BenchKernelsFlags& flags);

/// What --json has: the device, the limits, every row with its units in the keys' names.
nlohmann::ordered_json kernels_json(const Features& device, const KernelLimits& limits,
                                    const std::vector<KernelResult>& results);

}  // namespace vernier
