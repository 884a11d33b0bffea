#pragma once

#include <functional>
#include <string>

#include "audit/lint_report.h"
#include "checkpoint/checkpoint.h"
#include "text/tokenizer.h"

namespace vernier {

struct LintOptions {
  /// How the program makes a tokenizer of a model's files.
  std::function<Result<Tokenizer>(const TokenizerSource&)> load_tokenizer;
};

/// Looks for everything that is wrong with what lies at `path`, and does not stop at the first: a Hugging Face folder,
/// a GGUF file or its parts, or a single file of a checkpoint (.safetensors, .json, .jinja). Reads every tensor once.
/// Asks the loader's own checks and adds those about numbers, which loading has no time for. Never fails: what cannot
/// be read is a finding.
LintReport lint(const std::string& path, const LintOptions& options);

}  // namespace vernier
