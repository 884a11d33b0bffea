#pragma once

#include <span>
#include <string>
#include <vector>

#include "checkpoint/stored_matrix.h"

namespace vernier {

/// A module whose tensors are being put together: what the readers of single dialects share.
struct StoredModule {
  const Checkpoint& checkpoint;
  const std::string& name;
  int64_t rows;
  int64_t cols;
  const WeightScheme& scheme;
  const StoredTensor& codes;
  std::vector<StoredMatrix::Source> sources;  ///< the codes, then each scale as it is found

  std::string origin() const;  ///< "NAME.weight x weight_scale"
};

/// The one of several spellings that is there. Two at once are two scales, of which one would be forgotten; none is an
/// error that names what is missing.
Result<const StoredTensor*> find_one(const StoredModule& module, std::span<const char* const> names, const char* what);

/// Matrices of integers with scales and zero points or minimums: AWQ, GPTQ, MLX, compressed-tensors.
Result<QTensor> read_integers(StoredModule& module);
/// GGUF's NVFP4: scales inside its blocks, a global one beside it or none.
Result<QTensor> read_gguf_nvfp4(StoredModule& module);

}  // namespace vernier
