#include "audit/lint_binder.h"

#include <unordered_map>

#include "audit/lint_parts.h"
#include "checkpoint/cache_scales.h"

namespace vernier {

namespace {

/// Stands for a matrix whose numbers nobody will ask for.
class AbsentMatrix final : public PackedMatrix {
 public:
  AbsentMatrix(int64_t rows, int64_t cols) : PackedMatrix(rows, cols) {}
  PackedInfo info() const override { return {}; }
};

Weight<Split::kNone> absent_weight(const std::string& name, int64_t rows, int64_t cols) {
  return {name, std::make_shared<AbsentMatrix>(rows, cols), nullptr, {}};
}

/// Activations reach some thousands at most, and a scale is that over the largest code, or over 2688 (NVFP4).
constexpr float kLargestInputScale = 200;
constexpr float kSmallestInputScale = 1e-7f;

void lint_input_scale(const StoredMatrix& stored, LintReport& report) {
  if (!stored.input_scale) return;
  const float scale = *stored.input_scale;
  if (scale >= kSmallestInputScale && scale <= kLargestInputScale) return;
  for (const StoredMatrix::Source& source : stored.sources) {
    if (source.use != TensorUse::kInputScale) continue;
    report.add(lint_checks::kInputScale, source.tensor->file->path(), source.tensor->file_name,
               fmt::format("scales activations by {:g}, expected {:g} to {:g}; {:g} if it is meant to be divided by",
                           scale, kSmallestInputScale, kLargestInputScale, 1 / scale));
  }
}

}  // namespace

LintBinder::LintBinder(const Checkpoint& checkpoint, NullBackend& backend, bool silent, LintReport& report)
    : CheckpointBinder(checkpoint, backend), backend_(backend), silent_(silent), findings_(report) {
  for (const std::string& warning : this->report().warnings) {
    if (warning.find("tie_word_embeddings") == std::string::npos) continue;
    findings_.add(lint_checks::kTiedHead, checkpoint.path(), "lm_head.weight", warning);
  }
}

void LintBinder::note_failure(const Error& error) {
  const bool missing = error.message.find("is missing, and the configuration asks for it") != std::string::npos;
  if (missing && silent_) return;
  findings_.add(missing ? lint_checks::kMissing : lint_checks::kWeight, error);
}

std::shared_ptr<const PackedVector> LintBinder::absent_vector(int64_t size) {
  const std::vector<float> ones(static_cast<size_t>(size), 1.0f);
  return backend_.upload(ones).value();
}

Result<Norm> LintBinder::norm(const std::string& name, int64_t size, float eps, NormRule rule) {
  Result<Norm> bound = CheckpointBinder::norm(name, size, eps, rule);
  if (bound.ok()) return bound;
  note_failure(bound.error());
  return Norm{name, absent_vector(size), eps};
}

Result<LayerNorm> LintBinder::layer_norm(const std::string& name, int64_t size, float eps) {
  Result<LayerNorm> bound = CheckpointBinder::layer_norm(name, size, eps);
  if (bound.ok()) return bound;
  note_failure(bound.error());
  mark_module(name);
  return LayerNorm{name, absent_vector(size), absent_vector(size), eps};
}

Result<std::shared_ptr<const PackedVector>> LintBinder::vector(const std::string& name, int64_t size) {
  Result<std::shared_ptr<const PackedVector>> bound = CheckpointBinder::vector(name, size);
  if (bound.ok()) return bound;
  note_failure(bound.error());
  return absent_vector(size);
}

Result<LatentHeads> LintBinder::latent_heads(const std::string& name, int heads, const LatentSpec& spec) {
  lint_part({name, heads * int64_t{spec.nope_dim + spec.value_dim}}, spec.rank, name);
  LatentHeads made;
  for (int head = 0; head < heads; ++head) {
    made.keys.push_back(absent_weight(name, spec.rank, spec.nope_dim));
    made.values.push_back(absent_weight(name, spec.value_dim, spec.rank));
  }
  return made;
}

void LintBinder::mark_module(const std::string& module) {
  for (size_t i = 0; i < report_.tensors.size(); ++i) {
    TensorReport& tensor = report_.tensors[i];
    const bool of_module = tensor.name.starts_with(module) && tensor.name.size() > module.size() &&
                           (tensor.name[module.size()] == '.' || tensor.name[module.size()] == '_');
    if (!of_module) continue;
    examined_.insert(&checkpoint_.tensors()[i]);
    if (tensor.use == TensorUse::kNotBound) tensor.use = TensorUse::kMatrix;
  }
}

void LintBinder::lint_part(const WeightPart& part, int64_t cols, const std::string& bound_as) {
  Result<StoredMatrix> stored = matrix(part, cols, bound_as);
  if (!stored.ok()) {
    note_failure(stored.error());
    mark_module(part.name);
    return;
  }
  for (const StoredMatrix::Source& source : stored->sources) examined_.insert(source.tensor);
  lint_matrix(*stored, findings_);
  lint_input_scale(*stored, findings_);
  for (const StoredMatrix::Source& source : stored->sources) source.tensor->data().release_pages();
}

Result<Binder::Bound> LintBinder::bind_matrix(const std::vector<WeightPart>& parts, int64_t cols, BiasRule rule, Split,
                                              PackUse) {
  Bound bound;
  int64_t rows = 0;
  for (const WeightPart& part : parts) {
    bound.name += (bound.name.empty() ? "" : "+") + part.name;
    rows += part.rows;
  }
  if (Status status = check_parts(parts); !status.ok()) findings_.add(lint_checks::kQuantisation, status.error());
  for (const WeightPart& part : parts) {
    lint_part(part, cols, bound.name);
    if (rule != BiasRule::kRequired) continue;
    if (auto own = bias({part}, bound.name); !own.ok()) note_failure(own.error());
  }
  bound.matrix = std::make_shared<AbsentMatrix>(rows, cols);
  if (rule == BiasRule::kRequired) bound.bias = absent_vector(rows);
  return bound;
}

void LintBinder::lint_left_over(std::span<const std::string> unneeded) {
  const LeftOver left = left_over(unneeded);
  std::unordered_map<std::string_view, std::string> files;
  for (const StoredTensor& tensor : checkpoint_.tensors()) files.emplace(tensor.file_name, tensor.file->path());
  for (const std::string& name : left.scales) {
    if (parse_cache_scale(name)) continue;  // what is wrong with those is said of all together
    findings_.add(lint_checks::kUnusedScale, files[name], name,
                  "looks like a scale, and no weight takes it; a model computed without it would be wrong");
  }
  for (const std::string& name : left.biases) {
    findings_.add(lint_checks::kUnusedBias, files[name], name,
                  "is the bias of a weight that the configuration gives none");
  }
  for (const std::string& name : left.in_layers) {
    findings_.add(lint_checks::kUnusedInLayer, files[name], name,
                  "stands in a layer, and nothing of the configuration takes it");
  }
  for (const std::string& name : left.others) {
    findings_.add(lint_checks::kUnused, files[name], name, "is not asked for by a model of this configuration");
  }
  if (left.other_modality == 0) return;
  findings_.add(lint_checks::kOther, checkpoint_.path(), "",
                fmt::format("{} tensors of picture or sound encoders are not searched", left.other_modality));
}

}  // namespace vernier
