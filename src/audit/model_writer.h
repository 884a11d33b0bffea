#pragma once

#include <memory>
#include <string>

#include "audit/quantise_checkpoint.h"
#include "checkpoint/load_report.h"

namespace vernier {

/// Where a quantised model goes: a folder or a file under a name that no reader takes for a model.
///
/// Called with each matrix of the model as it is made, then once with the report of all tensors, for those that were
/// not matrices. `finish` gives the output its own name. One thread.
class ModelWriter {
 public:
  virtual ~ModelWriter() = default;

  /// The codec in which this output keeps a matrix that is not quantised; its own where nothing changes.
  virtual Result<Codec> kept_codec(const QTensor& matrix, PackUse use) const = 0;
  /// `stored` is the tensor that holds the numbers in the source.
  virtual Status matrix(const WeightPart& part, const StoredTensor& stored, const QTensor& matrix) = 0;
  virtual Status others(const LoadReport& report) = 0;
  virtual Status finish() = 0;
  virtual int64_t written_bytes() const = 0;
};

/// A folder as Hugging Face's libraries lay one out, its codes in the dialect that most engines read for the format.
Result<std::unique_ptr<ModelWriter>> make_folder_writer(const Checkpoint& checkpoint, const QuantiseJob& job,
                                                        std::string partial);
/// A GGUF file; with the metadata of the source where that is one.
Result<std::unique_ptr<ModelWriter>> make_gguf_writer(const Checkpoint& checkpoint, const QuantiseJob& job,
                                                      std::string partial);

/// The same from a folder: names, metadata, vocabulary and the order of rotary rows become those of GGUF files.
Result<std::unique_ptr<ModelWriter>> make_gguf_converter(const Checkpoint& checkpoint, const QuantiseJob& job,
                                                         std::string partial);

/// Binds every weight of the model to nothing, handing each to `rewrite` on the way; gives the report of the tensors.
Result<LoadReport> stream_weights(const Checkpoint& checkpoint, CheckpointBinder::Rewrite rewrite,
                                  std::function<void(const BindProgress&)> on_progress);

}  // namespace vernier
