#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ops/cache_spec.h"
#include "ops/ops.h"
#include "tensor/qtensor.h"
#include "tune/choice.h"
#include "tune/machine_limits.h"
#include "tune/measure.h"
#include "tune/tactic_use.h"
#include "tune/untuned.h"

namespace vernier {

class TacticStore;

/// How much of a number is kept between ops.
enum class Numerics : uint8_t {
  kExact,  ///< float32 activations against decoded weights
  kFast,   ///< activations may be quantised inside an op
};

/// What a matrix will be used for; a layout may depend on it.
enum class PackUse : uint8_t {
  kLinear,
  kWideRows,           ///< the same, of a checkpoint that quantised weights alone: rows keep 16 bits
  kEmbedding,          ///< rows are looked up
  kTiedEmbeddingHead,  ///< both, in one copy
  kRouter,             ///< chooses experts: exact whatever the numerics, as rounding may choose others
};

struct Features {
  std::string device;  ///< "AMD EPYC, 2 threads"
  std::string isa;     ///< kernels in use: "avx2"
  int threads = 1;
  Numerics numerics = Numerics::kFast;
};

/// Cache memory for all layers, [cache class][blocks]; its bytes are reached only through attend.
class KvStore {
 public:
  virtual ~KvStore() = default;
  virtual int64_t bytes() const = 0;
  /// Of each layer, how many numbers were too large for the stored type and became its largest. Any thread. Empty
  /// where nothing is stored.
  virtual std::vector<int64_t> saturated() const { return {}; }
};

/// What a KvStore is made for.
struct KvLayout {
  std::vector<CacheSpec> layers;      ///< by layer
  std::vector<int32_t> class_blocks;  ///< blocks in the pool of each cache class
  int32_t block_tokens = 0;
};

/// A tactic as it was measured, beside what would have run without it.
struct MeasuredTactic {
  Tactic tactic;
  double fixed_ns = 0;  ///< of the fixed choice; 0: it was refused
  bool fixed_is_chosen = false;
};

/// A device: packs weights, owns cache bytes, makes Ops, and says which kernel serves what and why. One thread at a
/// time.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  virtual Features features() const = 0;

  /// Packs the rows of all segments, one below the other (a fused weight; columns agree), each with its own scales.
  virtual Result<std::shared_ptr<const PackedMatrix>> pack(std::span<const QTensor> segments, PackUse use) = 0;
  virtual Result<std::shared_ptr<const PackedVector>> upload(std::span<const float> values) = 0;

  virtual Result<std::unique_ptr<KvStore>> make_kv(const KvLayout& layout) = 0;
  /// Ops over that cache, for steps of at most `max_rows` rows. The store outlives it.
  virtual Result<std::unique_ptr<Ops>> make_ops(KvStore& kv, int64_t max_rows) = 0;

  /// Which kernel multiplies by this matrix for steps of `batch_rows` rows, and why not another: one choice for each
  /// codec of its rows.
  virtual std::vector<Choice> explain_linear(const PackedMatrix& matrix, int64_t batch_rows) const = 0;
  virtual Choice explain_attend(const AttnSpec& spec, const CacheSpec& cache, int64_t batch_rows) const = 0;

  /// Kernels are chosen by these tactics from now on. Refuses a pin that what it finds cannot have. A backend that has
  /// no tactics takes none.
  virtual Status use_tactics(std::shared_ptr<TacticStore> store, TacticUse use);
  /// The store has learnt more. While no step runs, like the one before.
  virtual Status refresh_tactics() { return {}; }
  /// Measures the candidates of one problem of explain_linear. What the scope of a tactic says, and when it was
  /// measured, is the caller's to fill in. Refused by a backend that measures none.
  virtual Result<MeasuredTactic> measure_linear(const PackedMatrix& matrix, const Problem& problem, int64_t batch_rows,
                                                const MeasureRules& rules);
  /// Of all that was packed, how often it ran without a tactic. Any thread.
  virtual std::vector<UntunedLaunches> untuned() const { return {}; }

  /// The device's ceilings, measured over `buffer_bytes` of memory. Refused by a backend that is not there to be fast.
  virtual Result<MachineLimits> measure_limits(int64_t buffer_bytes);
  /// Operations a second of a large bf16 product on random numbers by the vendor's own library, now. Refused where
  /// there is none, with its name.
  virtual Result<double> measure_library_products();
};

}  // namespace vernier
