#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_binder.h"
#include "checkpoint/weight_quantiser.h"
#include "text/gguf_vocabulary.h"

namespace vernier {

/// What `quantise_checkpoint` is to do.
struct QuantiseJob {
  QuantiseRequest request;
  std::string out;                ///< a folder, or a file whose name ends in .gguf
  bool overwrite = false;         ///< replaces what stands there
  CodecId rest = CodecId::kBF16;  ///< in a folder: what blocks of a matrix that is not quantised are decoded to
  double min_snr_db = -std::numeric_limits<double>::infinity();  ///< nothing is written where a matrix falls below
  int64_t shard_bytes = int64_t{5} << 30;                        ///< of one safetensors file
  std::optional<GgufVocabulary> vocabulary;  ///< where a file of one kind becomes a folder or the other way about
  std::function<void(const BindProgress&)> on_progress;
};

/// One matrix whose numbers were put into another codec.
struct QuantisedMatrix {
  std::string name;
  std::string from, to;  ///< codecs
  int64_t rows = 0, cols = 0;
  int64_t bytes = 0;  ///< as written
  QuantLoss loss;
};

struct QuantiseSummary {
  std::vector<QuantisedMatrix> matrices;
  QuantLoss all;
  int64_t source_bytes = 0;   ///< of tensors
  int64_t written_bytes = 0;  ///< of tensors
  std::vector<std::string> notes;
};

/// Quantises a checkpoint and writes it as a Hugging Face folder or a GGUF file, one weight at a time. What it writes
/// holds the numbers that a load with the same request computes with, to the bit.
///
/// Everything is written under another name ("OUT.partial") and gets its own when it is complete. Refuses, before
/// anything is written, a format that the kind of output cannot hold, and an output that stands there.
Result<QuantiseSummary> quantise_checkpoint(const Checkpoint& checkpoint, const QuantiseJob& job);

}  // namespace vernier
