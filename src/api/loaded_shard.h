#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/layer_cuts.h"
#include "api/loaded_model.h"

namespace vernier {

/// The products of one rank of several: its part of a model's matrices, in a backend. Products alike in all that
/// selects a kernel are there once. It runs nothing yet; its problems are those that the rank would meet.
class LoadedShard {
 public:
  /// Refuses a number of ranks that the model's heads cannot be cut for, with the nearest that work.
  static Result<std::unique_ptr<LoadedShard>> load(const std::string& path, const LoadOptions& options, int ranks,
                                                   int rank);

  Backend& backend() const { return *backend_; }
  TacticStore* tactics() const { return tactics_.get(); }
  const std::vector<DecoderPart>& parts() const { return parts_; }

 private:
  LoadedShard() = default;
  Status pack_part(const DecoderPart& part, const PartCut& cut);

  std::unique_ptr<Checkpoint> checkpoint_;
  std::shared_ptr<TacticStore> tactics_;
  std::unique_ptr<PlannedBackend> planned_;
  std::optional<Decoder> decoder_;  // as stored, uncut
  std::unique_ptr<Backend> backend_;
  std::vector<std::shared_ptr<const PackedMatrix>> matrices_;
  std::vector<DecoderPart> parts_;
  std::vector<std::string> seen_;  // what each of them is, as text
};

}  // namespace vernier
