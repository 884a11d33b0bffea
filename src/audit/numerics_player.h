#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ops/backend.h"

namespace vernier {

/// One backend's ops, into which any numbers can be put and out of which all can be read. A shard comes and goes
/// through an identity matrix of float32, which changes no number on any backend. One thread.
class NumericsPlayer {
 public:
  static Result<std::unique_ptr<NumericsPlayer>> make(Backend& backend, const KvLayout& layout, int64_t max_rows);

  Ops& ops() { return *ops_; }
  /// `own_tokens`: the step's tokens are its own row numbers, so that `put` may bring in any rows; else they are the
  /// view's.
  void begin(const StepView& view, bool own_tokens);
  /// As many rows as the step has.
  Value put(std::span<const float> numbers, int64_t cols);
  Shard put_shard(std::span<const float> numbers, int64_t cols);
  std::vector<float> take(const Value& x);
  std::vector<float> take(const Shard& x);
  /// Whether a product of so many rows by the matrix rounds them to E4M3.
  bool rounds_to_e4m3(const PackedMatrix& matrix, int64_t rows) const;

 private:
  explicit NumericsPlayer(Backend& backend) : backend_(backend) {}
  /// The identity of the columns last asked for.
  std::shared_ptr<const PackedMatrix> identity(int64_t cols);

  Backend& backend_;
  std::unique_ptr<KvStore> kv_;
  std::unique_ptr<Ops> ops_;
  std::vector<int32_t> row_numbers_;
  std::vector<std::shared_ptr<const PackedMatrix>> identities_;
  std::vector<Weight<Split::kNone>> inputs_;  // of this step: the ops may read them until it ends
};

}  // namespace vernier
