#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "audit/lint.h"
#include "checkpoint/checkpoint_binder.h"
#include "models/decoder_spec.h"

namespace vernier {

/// What the parts of `lint` share. Each adds what it finds to the report.

/// A folder with config.json, read file by file; what can be opened is searched, whatever else is broken.
void lint_hf_folder(const LintOptions& options, LintReport& report);
/// A GGUF file, its parts, or a folder with them.
void lint_gguf(const LintOptions& options, LintReport& report);
/// One file of a checkpoint by itself.
void lint_single_file(const LintOptions& options, LintReport& report);

/// How far an opened checkpoint may be searched.
struct LintDepth {
  bool weights_complete = true;  ///< what is missing is a finding; else it is known already that files are
  bool plan_known = true;        ///< which layers are quantised could be read
};
/// Configuration, weights, scales, numbers, tokenizer and templates of an opened checkpoint.
void lint_checkpoint(const Checkpoint& checkpoint, const LintDepth& depth, const LintOptions& options,
                     LintReport& report);

/// The numbers of one matrix with its scales: NaN, infinities, nothing but zeros, magnitudes that no weight has.
void lint_matrix(const StoredMatrix& stored, LintReport& report);
/// The numbers of a tensor whose place in the model is not known, or that is no matrix.
void lint_tensor(const StoredTensor& tensor, LintReport& report);
/// FP8 codes beside which no scale stands, where no configuration says anything about them.
void lint_lone_codes(const Checkpoint& checkpoint, LintReport& report);
/// Scales of the cache against the model's layers.
void lint_cache_scales(const LoadReport& loaded, const QuantPlan& plan, const DecoderSpec& spec, LintReport& report);
/// Whether a JSON file is, or would be, a side-car with scales of the cache.
bool is_scale_file(const nlohmann::json& tree);
/// What --kv-scales would refuse; against the model, where there is one.
void lint_scale_file(const std::string& path, const DecoderSpec* spec, LintReport& report);
/// Each such file that lies in the folder.
void lint_scale_files(const std::string& folder, const DecoderSpec* spec, LintReport& report);
/// Settings of a configuration that contradict each other, and that no loader minds.
void lint_settings(const Checkpoint& checkpoint, const DecoderSpec& spec, LintReport& report);
/// Tokenizer, special tokens and chat templates; `vocab` is 0 where it is not known.
void lint_text(const Checkpoint& checkpoint, int64_t vocab, const LintOptions& options, LintReport& report);
void lint_templates(const std::vector<StoredTemplate>& templates, const std::string& where, LintReport& report);

}  // namespace vernier
