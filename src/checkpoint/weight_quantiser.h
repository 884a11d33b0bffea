#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/module_pattern.h"
#include "ops/backend.h"
#include "ops/binder.h"
#include "tensor/quantise.h"

namespace vernier {

/// A format that weights can be quantised to, under the name that flags take.
struct QuantTarget {
  std::string name;  ///< "mxfp4", "fp8_block", "q4_k"
  Codec codec;
  /// What a matrix becomes whose columns are no multiple of the codec's group; empty: it is refused.
  std::vector<CodecId> narrower_groups;
};

/// Refuses another word, with the list of those that are known.
Result<QuantTarget> find_quant_target(std::string_view flag, std::string_view word);
std::string quant_target_names();  ///< "fp8, fp8_channel, ..."

/// What a person asks for.
struct QuantiseRequest {
  QuantTarget target;
  bool head = false;              ///< the head too, where it has a matrix of its own
  std::vector<std::string> keep;  ///< patterns of modules that stay as they are
  bool requantise = false;        ///< a checkpoint that its configuration calls quantised is decoded first
  int threads = 1;
};

/// Decides which weights of a checkpoint are quantised, and does it: matrices of linear layers, experts' included; not
/// embeddings, routers, norms, biases, nor the head unless asked for. The same for a load and for a file that is
/// written, so both hold the same numbers. Immutable; one thread.
class WeightQuantiser {
 public:
  /// Refuses a pattern that matches no module.
  static Result<WeightQuantiser> make(const Checkpoint& checkpoint, QuantiseRequest request);

  const QuantiseRequest& request() const { return request_; }
  bool takes(const std::string& module, PackUse use) const;
  /// What a matrix of so many columns becomes; refuses those that the target's groups do not divide.
  Result<Codec> codec_for(int64_t cols) const;
  /// Puts each segment that is to be quantised into the target's codec, those of one NVFP4 weight under one global
  /// scale, as other engines fuse them. Refuses codes of another codec where the checkpoint's configuration calls it
  /// quantised, unless the request says otherwise. Names the part in what it refuses.
  Status apply(std::span<const WeightPart> parts, PackUse use, std::vector<QTensor>& segments) const;

 private:
  explicit WeightQuantiser(QuantiseRequest request) : request_(std::move(request)) {}

  QuantiseRequest request_;
  std::vector<ModulePattern> keep_;
  std::string quantised_;  // how the checkpoint is, where its codes may not be made anew
};

}  // namespace vernier
