#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "base/result.h"
#include "ops/planned_backend.h"

namespace vernier {

/// The flags of commands that plan for an accelerator.
struct DeviceFlags {
  std::string features;  ///< empty: this machine
  std::string kernel;
  std::string result = "bf16";
  bool no_requant = false;

  /// --device-features, --kernel, --result-dtype, --no-requant.
  void add_to(CLI::App& command);
  bool given() const { return !features.empty(); }
  Result<PlanRules> rules() const;
};

/// A chip by its name, "sm100", or by a JSON file: {"name": ..., "capabilities": [...], "shared_bytes": ...}.
Result<DeviceFeatures> read_device_features(const std::string& given);

}  // namespace vernier
