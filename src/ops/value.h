#pragma once

#include <cstdint>
#include <utility>

#include "base/check.h"

namespace vernier {

/// Whoever keeps the memory behind activations: a backend's Ops. `release` is called once for each handle.
class ActivationOwner {
 public:
  virtual void release(int32_t id) = 0;

 protected:
  ~ActivationOwner() = default;
};

enum class ActivationKind : uint8_t {
  kWhole,    ///< every column, on every rank
  kShard,    ///< this rank's columns
  kPartial,  ///< this rank's term of a sum over ranks
};

/// Move-only handle to an activation of this step, [rows, cols] of the backend's own type. Destroying it gives the
/// memory back, in stream order. A model passes handles and never reads data. The kind is part of the type: what takes
/// a whole activation cannot be given a shard or an unreduced sum. Lives no longer than the Ops that made it; one
/// thread.
template <ActivationKind K>
class Activation {
 public:
  Activation(ActivationOwner& owner, int32_t id, int64_t rows, int64_t cols)
      : owner_(&owner), id_(id), rows_(rows), cols_(cols) {}
  Activation(Activation&& other) noexcept
      : owner_(std::exchange(other.owner_, nullptr)), id_(other.id_), rows_(other.rows_), cols_(other.cols_) {}
  Activation& operator=(Activation&& other) noexcept {
    if (this != &other) {
      reset();
      owner_ = std::exchange(other.owner_, nullptr);
      id_ = other.id_;
      rows_ = other.rows_;
      cols_ = other.cols_;
    }
    return *this;
  }
  ~Activation() { reset(); }

  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  /// For the owning backend only. CHECKs that the handle was not moved from and belongs to `owner`.
  int32_t id(const ActivationOwner& owner) const {
    CHECK(owner_ == &owner, "an activation was used after its move, or by another backend");
    return id_;
  }

 private:
  void reset() {
    if (owner_ != nullptr) owner_->release(id_);
    owner_ = nullptr;
  }

  ActivationOwner* owner_;
  int32_t id_;
  int64_t rows_;
  int64_t cols_;
};

/// A whole activation. It may be pending: a backend may compute it only when an op takes it in.
using Value = Activation<ActivationKind::kWhole>;
/// This rank's columns; only attend, gate, a row-cut linear or a gather takes it.
using Shard = Activation<ActivationKind::kShard>;
/// The unreduced sum of a row-cut weight; becomes a Value only through a reduction.
using Partial = Activation<ActivationKind::kPartial>;

}  // namespace vernier
