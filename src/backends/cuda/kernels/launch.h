#pragma once

#include <cstdint>

#include "backends/cuda/kernels/views.h"

/// The border: what the rest of the room calls. Each function launches on a stream and returns at once; it gives 0, or
/// what the driver said. Extents are the caller's duty. C++17; no header of CUDA.
namespace vernier::cuda {

/// A stream of the driver's.
using Stream = struct StreamTag*;
using LaunchCode = int;
inline constexpr LaunchCode kLaunched = 0;

// ---- products (linear.cu) ----

/// Rows of a matrix and the first output that they make; the next part's outputs follow.
struct ProductPart {
  QView weight;
  int64_t first_output = 0;
  VERNIER_COMPARED(ProductPart)
};
inline constexpr int kMostParts = 4;

/// out[r, o] = x[r] . row o of the parts (+ bias[o]) (+ what stood there), for each of `rows` rows. A number's sum is
/// made in one order, however many rows there are.
struct ProductCall {
  ProductPart parts[kMostParts];  ///< of one kind of codes
  int32_t part_count = 0;
  int64_t outputs = 0;  ///< of all parts; they begin at that of the first
  ConstRows x;
  int64_t rows = 0;
  Rows out;                     ///< column 0 is output 0
  const float* bias = nullptr;  ///< of output 0 on
  bool add = false;
  VERNIER_COMPARED(ProductCall)
};
LaunchCode product(const ProductCall& call, Stream stream);

enum class Activation : uint8_t { kSilu, kGeluTanh, kGelu };
struct GateRule {
  Activation act = Activation::kSilu;
  float limit = 0;  ///< 0: none
  float slope = 1;
  float up_offset = 0;
  VERNIER_COMPARED(GateRule)
};

/// A product whose neighbours are a part of it: x may be normed first, and of gate and up, whose products stand one
/// above the other, `gate` may be made. Each number has the bits that separate launches give it.
struct FusedProductCall {
  ProductCall product;
  const float* norm = nullptr;  ///< [cols] of x's norm; null: none
  float norm_eps = 0;
  bool gated = false;  ///< out has half the outputs
  GateRule gate;
  VERNIER_COMPARED(FusedProductCall)
};
/// Shared memory that it takes, in bytes; what a launch may have is kMostFusedBytes, of kMostFusedRows rows.
inline constexpr int kMostFusedRows = 8;
inline constexpr int64_t kMostFusedBytes = 48 * 1024 - 1024;
constexpr int64_t fused_product_bytes(int64_t rows, int64_t cols, bool normed) {
  return normed ? (rows == 1 ? 1 : kMostFusedRows) * ((cols + 3) / 4 * 4) * 4 : 0;
}
LaunchCode fused_product(const FusedProductCall& call, Stream stream);

/// The same for many matrices of one kind: places [first[e], first[e + 1]) are rows of matrix e. A matrix without codes
/// or of another kind is passed over.
struct GroupedProductCall {
  Codes kind = Codes::kF32;
  const QView* weights = nullptr;        ///< [matrices]
  const float* const* biases = nullptr;  ///< [matrices] of the views' rows; null: none, and each may be
  const int32_t* first = nullptr;        ///< [matrices + 1]
  const int32_t* source_rows = nullptr;  ///< [places] rows of x; null: the places themselves
  int32_t matrices = 0;
  int64_t most_outputs = 0;  ///< of a view
  ConstRows x;
  Rows out;  ///< [places]
  VERNIER_COMPARED(GroupedProductCall)
};
LaunchCode grouped_product(const GroupedProductCall& call, Stream stream);

/// Rows of a table, times `factor`, where `indices` name rows of the view: out[i] for first_index <= indices[i] <
/// first_index + table.rows.
struct GatherCall {
  QView table;
  int64_t first_index = 0;
  const int32_t* indices = nullptr;  ///< [rows]
  int64_t rows = 0;
  float factor = 1;
  Rows out;
  VERNIER_COMPARED(GatherCall)
};
LaunchCode gather(const GatherCall& call, Stream stream);

// ---- rows (rows.cu) ----

/// x / sqrt(mean(x^2) + eps) * weight of each row.
LaunchCode rms_norm(ConstRows x, const float* weight, float eps, int64_t rows, int64_t cols, Rows out, Stream stream);
LaunchCode layer_norm(ConstRows x, const float* weight, const float* bias, float eps, int64_t rows, int64_t cols,
                      Rows out, Stream stream);
LaunchCode copy_rows(ConstRows x, const int32_t* source_rows, int64_t rows, int64_t cols, Rows out, Stream stream);
LaunchCode add(const float* x, int64_t count, float* into, Stream stream);
LaunchCode soft_cap(float* x, int64_t count, float cap, Stream stream);

LaunchCode activate(ConstRows x, Activation act, int64_t rows, int64_t cols, Rows out, Stream stream);
/// [gate | up] of 2 cols each row. `made` on the device says how many rows there are really; null: all.
LaunchCode gate(ConstRows x, const GateRule& rule, int64_t rows, int64_t cols, const int32_t* made, Rows out,
                Stream stream);

// ---- attention (attend_prepare.cu, attend.cu) ----

/// Cosines and sines of the rows' positions, [rows, pairs] each, made in float64.
struct RopeTable {
  const float* cosines = nullptr;
  const float* sines = nullptr;
  int32_t pairs = 0;
  VERNIER_COMPARED(RopeTable)
};
LaunchCode fill_rope(const int32_t* positions, int64_t rows, const float* frequencies, int32_t pairs, double magnitude,
                     float* cosines, float* sines, Stream stream);

enum class FreshKeys : uint8_t {
  kNone,       ///< a step's own keys and values are read from the cache
  kComputed,   ///< as they were computed
  kRoundTrip,  ///< after a write and a read
};

/// qk-norm, rope, and the write of keys and values.
struct AttendPrepareCall {
  ConstRows qkv;  ///< [rows, q | k | v]
  RowsView rows;
  int32_t heads = 0, kv_heads = 0, head_dim = 0;
  const float* q_norm = nullptr;  ///< [head_dim]; null: no norm
  const float* k_norm = nullptr;
  float norm_eps = 0;
  RopeTable rope;
  bool store = true;  ///< into the cache; what must then be there:
  TableView table;
  KeyView keys;
  ValueView values;
  bool one_row = false;  ///< values are the keys and are not stored again
  unsigned long long* saturated = nullptr;
  FreshKeys fresh = FreshKeys::kNone;
  Rows q;           ///< [rows, heads * head_dim]
  Rows fresh_keys;  ///< [rows, kv_heads * head_dim], where `fresh` asks for them
  Rows fresh_values;
  VERNIER_COMPARED(AttendPrepareCall)
};
LaunchCode attend_prepare(const AttendPrepareCall& call, Stream stream);

/// Keys are taken in ranges of this many absolute positions, each with a softmax of its own, and the ranges are merged
/// in their order: so a row's sum is made in one order, whatever else is in the step.
inline constexpr int kRangeKeys = 256;

struct AttendCall {
  RowsView rows;
  int32_t heads = 0, kv_heads = 0, head_dim = 0;
  int32_t window = 0;  ///< 0: none
  float scale = 1;
  float soft_cap = 0;
  bool causal = true;
  const float* sinks = nullptr;  ///< [heads]
  TableView table;               ///< where causal
  KeyView keys;
  ValueView values;
  bool fresh = false;  ///< keys from a sequence's first position of this step on are those of the step
  ConstRows q;
  ConstRows fresh_keys;
  ConstRows fresh_values;
  Rows out;
  VERNIER_COMPARED(AttendCall)
};
/// Numbers of scratch that ranges side by side take: [rows, heads, ranges, head_dim + 2].
constexpr int64_t attend_part_numbers(int32_t head_dim) {
  return int64_t{head_dim} + 2;
}
/// One block for each row and head walks its ranges.
LaunchCode attend_rows(const AttendCall& call, Stream stream);
/// One block for each row of [first_row, end_row), head and range; then the parts are merged. `ranges` is the most that
/// a row has.
LaunchCode attend_ranges(const AttendCall& call, int32_t first_row, int32_t end_row, int32_t ranges, float* parts,
                         Stream stream);

// ---- attention by tiles (attend_tiles.cu) ----

/// The same attention on tensor cores, over cached keys alone. Query heads of one KV head stand together, each number
/// as the sum of two or three narrow ones, so that products are exact and sums are float32. A row's keys lie in leaves
/// of 32 absolute positions, eight to a range and eight ranges to a span; each is summed in its order, and every
/// largest score is a whole power of two: so a sum does not depend on which blocks made its terms.
inline constexpr int kTileHeads = 8;   ///< query heads that share a block
inline constexpr int kSpanRanges = 8;  ///< of kRangeKeys positions
inline constexpr int kMostTileDim = 256;
constexpr bool tiles_take(int32_t head_dim, KvNumbers stored) {
  const bool dim = head_dim == 32 || head_dim == 64 || head_dim == 96 || head_dim == 128 || head_dim == 192 ||
                   head_dim == kMostTileDim;
  return dim && stored != KvNumbers::kF32;
}
/// How many blocks a row of so many ranges meets at most, of which each takes `each`: a divisor of a span's.
constexpr int32_t tile_parts(int32_t ranges, int32_t each) {
  return (ranges + each - 2) / each + 1;
}
/// The most spans that such a row meets.
constexpr int32_t tile_spans(int32_t ranges) {
  return tile_parts(ranges, kSpanRanges);
}
constexpr int32_t tile_groups(int32_t heads, int32_t kv_heads) {
  return (heads / kv_heads + kTileHeads - 1) / kTileHeads * kv_heads;
}
/// Numbers of scratch of a row whose ranges stand side by side, and how many counters.
inline constexpr int kPartHead = 4;  ///< numbers before a part's values, which begin at a multiple of 16 bytes
constexpr int64_t tile_part_numbers(int32_t heads, int32_t head_dim, int32_t ranges) {
  return int64_t{heads} * (ranges + tile_spans(ranges)) * (head_dim + kPartHead);
}
struct AttendTilesCall {
  AttendCall of;          ///< without fresh keys, causal
  int32_t first_row = 0;  ///< of those in this launch
  int32_t end_row = 0;
  int32_t ranges = 0;           ///< 0: a block walks a row's ranges; else they are side by side, so many at most
  int32_t each = 1;             ///< then: ranges of one block
  float* parts = nullptr;       ///< [end_row - first_row] of tile_part_numbers
  uint32_t* arrived = nullptr;  ///< [rows, tile_groups, spans + 1] that begin as 0 and are 0 again
  VERNIER_COMPARED(AttendTilesCall)
};
LaunchCode attend_tiles(const AttendTilesCall& call, Stream stream);

// ---- attention of many rows (attend_prompt.cu) ----

/// The same attention over cached keys for sequences with many rows in the step, by products of warp groups: queries
/// and powers are rounded to bf16 where keys are bf16, else to f16; beside keys of one byte a query is the sum of two
/// E4M3 numbers. Sums are float32. A row's sum depends on its sequence alone, and adds in another order than the
/// kernels above.
inline constexpr int kPromptTokens = 64;           ///< of a sequence, from which on it is faster
inline constexpr int kMostPromptPlaces = 1 << 30;  ///< of a layer's keys: blocks x heads x tokens
constexpr bool prompt_takes(int32_t head_dim, int32_t block_tokens) {
  const bool dim = head_dim == 64 || head_dim == 96 || head_dim == 128 || head_dim == 192 || head_dim == 256;
  return dim && block_tokens % 8 == 0;
}
struct AttendPromptCall {
  AttendCall of;  ///< without fresh keys, causal
  int32_t first_sequence = 0;
  int32_t sequences = 0;  ///< from there on; those with fewer rows than `least_rows` are passed over
  int32_t least_rows = 0;
  int32_t most_rows = 0;  ///< that a sequence has
  // The launch says these:
  int32_t run_tokens = 0;  ///< that lie beside each other for sure
  int32_t tiles = 0;       ///< of rows, all sequences as if they had most_rows
  VERNIER_COMPARED(AttendPromptCall)
};
LaunchCode attend_prompt(const AttendPromptCall& call, Stream stream);

/// Compressed rows to [rows, heads * row_dim | row_dim | row_dim]: rotated parts of the queries, and the normed row as
/// key and as value. What the heads' matrices make is left out.
struct LatentPrepareCall {
  ConstRows q;           ///< [rows, heads * (nope_dim + rope_dim)]
  ConstRows compressed;  ///< [rows, rank | rope_dim]
  int64_t rows = 0;
  int32_t heads = 0, rank = 0, nope_dim = 0, rope_dim = 0;
  bool neighbours = true;
  const float* norm = nullptr;  ///< [rank]
  float norm_eps = 0;
  RopeTable rope;
  Rows out;
  VERNIER_COMPARED(LatentPrepareCall)
};
LaunchCode latent_prepare(const LatentPrepareCall& call, Stream stream);

// ---- experts (experts.cu) ----

struct RouteCall {
  const float* logits = nullptr;      ///< [rows, experts]
  const float* correction = nullptr;  ///< [experts]; null: none
  int64_t rows = 0;
  int32_t experts = 0, chosen = 0, groups = 1, chosen_groups = 1;
  bool softmax = true;
  bool normalize = false;
  bool best_two = false;  ///< a group's score; else its best
  float scale = 1;
  int32_t* expert_of = nullptr;  ///< [rows, chosen] in order of their numbers
  float* weight_of = nullptr;    ///< [rows, chosen]
  VERNIER_COMPARED(RouteCall)
};
/// Shared memory that a row's choice takes, in bytes.
constexpr int64_t route_shared_bytes(int32_t experts, int32_t chosen, int32_t groups) {
  return int64_t{experts} * 5 + int64_t{chosen} * 8 + int64_t{groups} * 5 + 64;
}
LaunchCode route(const RouteCall& call, Stream stream);

/// An expert that some row chose, and the places of its rows; below 0: none.
struct ActiveExpert {
  int32_t expert = -1;
  int32_t first = 0, end = 0;
  int32_t all = 0;  ///< how many there are
};
/// Where each choice stands among those of its expert: first[e] is the first place of expert e, place_of[c] the place
/// of choice c, row_at[p] the row at a place.
struct PlacesCall {
  const int32_t* expert_of = nullptr;  ///< [choices]
  int64_t choices = 0;
  int32_t chosen = 0, experts = 0;
  int32_t* first = nullptr;        ///< [experts + 1]
  int32_t* place_of = nullptr;     ///< [choices]
  int32_t* row_at = nullptr;       ///< [choices]
  ActiveExpert* active = nullptr;  ///< [most_active] in order of their numbers
  int32_t most_active = 0;         ///< as many as there can be
  int32_t weighted = 0;            ///< experts before it have weights; the others are not active
  VERNIER_COMPARED(PlacesCall)
};
LaunchCode find_places(const PlacesCall& call, Stream stream);

/// out[r] = the sum of a row's answers, each times its weight, in order of the experts' numbers. Experts from
/// `weighted` on answer with the row itself.
struct CombineCall {
  ConstRows answers;  ///< [places]
  ConstRows x;
  const int32_t* expert_of = nullptr;  ///< [rows, chosen]
  const float* weight_of = nullptr;
  const int32_t* place_of = nullptr;
  int64_t rows = 0, cols = 0;
  int32_t chosen = 0, weighted = 0;
  Rows out;
  VERNIER_COMPARED(CombineCall)
};
LaunchCode combine(const CombineCall& call, Stream stream);

}  // namespace vernier::cuda
