#include "checkpoint/checkpoint_binder.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/ranges.h>

#include "checkpoint/byte_reader.h"
#include "checkpoint/cache_scales.h"
#include "checkpoint/scale_tensor.h"
#include "ops/null_backend.h"
#include "tensor/tensor.h"

namespace vernier {

namespace {

constexpr std::string_view kHead = "lm_head";

std::optional<DType> dense_dtype(const StoredTensor& tensor) {
  if (tensor.codec == CodecId::kF32) return DType::kF32;
  if (tensor.codec == CodecId::kF16) return DType::kF16;
  if (tensor.codec == CodecId::kBF16) return DType::kBF16;
  return std::nullopt;
}

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

/// A copy of dense numbers with rows and columns exchanged.
Result<QTensor> transposed_dense(const QTensor& from) {
  const QTensor::View view = from.view();
  const auto rows = static_cast<size_t>(view.rows), cols = static_cast<size_t>(view.cols);
  const size_t size = view.codes.size() / (rows * cols);
  std::vector<std::byte> turned(view.codes.size());
  for (size_t row = 0; row < rows; ++row) {
    for (size_t col = 0; col < cols; ++col) {
      std::copy_n(view.codes.data() + (row * cols + col) * size, size, turned.data() + (col * rows + row) * size);
    }
  }
  return QTensor::make({view.codec, view.cols, view.rows, Bytes(std::move(turned)), {}, {}, {}, from.origin()});
}

/// Names of a file's tensors, cut where the list is long.
std::string shown_list(const std::vector<std::string>& names) {
  constexpr size_t kLongestList = 600;
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + printable(name);
  return list.size() > kLongestList ? list.substr(0, kLongestList) + "..." : list;
}

/// "model.layers.3.mlp.x", "blk.3.x"
bool is_in_layer(std::string_view name) {
  for (std::string_view list : {"layers.", "layer.", "blk."}) {
    const size_t at = name.find(list);
    if (at == std::string_view::npos || (at > 0 && name[at - 1] != '.')) continue;
    const size_t number = at + list.size();
    if (number < name.size() && name[number] >= '0' && name[number] <= '9') return true;
  }
  return false;
}

std::string joined_names(const std::vector<WeightPart>& parts) {
  std::string out;
  for (const WeightPart& part : parts) out += (out.empty() ? "" : "+") + part.name;
  return out;
}

}  // namespace

std::vector<int64_t> deinterleaved_rows(int64_t rows, int64_t heads) {
  const int64_t head_rows = rows / heads, half = head_rows / 2;
  std::vector<int64_t> order;
  order.reserve(static_cast<size_t>(rows));
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t side = 0; side < 2; ++side) {
      for (int64_t pair = 0; pair < half; ++pair) order.push_back(head * head_rows + 2 * pair + side);
    }
  }
  return order;
}

std::vector<int64_t> interleaved_rows(int64_t rows, int64_t heads) {
  const int64_t head_rows = rows / heads, half = head_rows / 2;
  std::vector<int64_t> order;
  order.reserve(static_cast<size_t>(rows));
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t pair = 0; pair < half; ++pair) {
      for (int64_t side = 0; side < 2; ++side) order.push_back(head * head_rows + side * half + pair);
    }
  }
  return order;
}

std::vector<int64_t> halves_apart(int64_t rows) {
  return deinterleaved_rows(rows, 1);
}

CheckpointBinder::CheckpointBinder(const Checkpoint& checkpoint, Backend& backend,
                                   std::function<void(const BindProgress&)> progress)
    : checkpoint_(checkpoint),
      report_(describe(checkpoint)),
      backend_(backend),
      progress_(std::move(progress)),
      computes_(dynamic_cast<const NullBackend*>(&backend) == nullptr),
      head_is_tied_copy_(false) {
  for (const TensorReport& tensor : report_.tensors) {
    if (!belongs_to_other_modality(tensor.name)) state_.total_bytes += tensor.stored_bytes;
  }
  cache_scales_ = take_cache_scales(checkpoint, report_);
  // A head that repeats the embedding table needs no copy of its own; one that differs is the head.
  Result<Config> config = checkpoint.config();
  bool tied = config.ok() && config->boolean("tie_word_embeddings", false).ok() &&
              config->boolean("tie_word_embeddings", false).value();
  if (!tied || checkpoint.find(std::string(kHead) + ".weight") == nullptr) return;
  head_is_tied_copy_ = checkpoint.head_equals_embedding();
  if (!head_is_tied_copy_) {
    report_.warnings.push_back(
        "tie_word_embeddings is true, but lm_head.weight differs from the embedding table: lm_head.weight is the head");
  }
}

Status CheckpointBinder::take(const StoredTensor& tensor, const std::string& bound_as, TensorUse use) {
  TensorReport& entry = report_.tensors[static_cast<size_t>(&tensor - checkpoint_.tensors().data())];
  if (entry.use != TensorUse::kNotBound) {
    return tensor_error(tensor, ErrorCode::kInternal,
                        fmt::format("bound twice, as {} and as {}", entry.bound_as, bound_as));
  }
  entry.use = use;
  entry.bound_as = bound_as;
  return {};
}

Result<StoredMatrix> CheckpointBinder::matrix(const WeightPart& part, int64_t cols, const std::string& bound_as) {
  const StoredTensor* codes = part.dense_is_transposed ? find_codes(checkpoint_, part.name) : nullptr;
  const bool transposed = codes != nullptr && dense_dtype(*codes).has_value();
  TRY_BIND(StoredMatrix stored,
           read_matrix(checkpoint_, part.name, transposed ? cols : part.rows, transposed ? part.rows : cols));
  for (const StoredMatrix::Source& source : stored.sources) TRY_STATUS(take(*source.tensor, bound_as, source.use));
  if (transposed) {
    TRY_BIND(stored.matrix, transposed_dense(stored.matrix));
  }
  if (part.halves_alternate) {
    TRY_BIND(stored.matrix, stored.matrix.permute_rows(halves_apart(part.rows)));
    return stored;
  }
  if (!checkpoint_.dialect().rope_rows_interleaved || part.rope_heads == 0) return stored;
  if (part.rows % (2 * int64_t{part.rope_heads}) != 0) {
    return tensor_error(*stored.sources[0].tensor, ErrorCode::kCorrupt,
                        fmt::format("{} rows are no {} heads of rotary pairs", part.rows, part.rope_heads));
  }
  TRY_BIND(stored.matrix, stored.matrix.permute_rows(deinterleaved_rows(part.rows, part.rope_heads)));
  return stored;
}

/// A rule that takes some parts of a fused weight and leaves others was written for another model, or by mistake.
Status CheckpointBinder::check_parts(const std::vector<WeightPart>& parts) const {
  const QuantPlan& plan = checkpoint_.plan();
  if (plan.empty() || plan.parts_may_differ) return {};
  const WeightDecision first = plan.decide(parts.front().name);
  for (const WeightPart& part : parts) {
    const WeightDecision other = plan.decide(part.name);
    if (other.scheme.same_numbers(first.scheme)) continue;
    return Error{ErrorCode::kCorrupt,
                 fmt::format("{} and {} are parts of one weight, and {} has them differ: {} by {}, and {} by {}",
                             printable(parts.front().name), printable(part.name), plan.origin, describe(first.scheme),
                             first.rule, describe(other.scheme), other.rule),
                 checkpoint_.path()};
  }
  return {};
}

Result<std::vector<float>> CheckpointBinder::numbers(const std::string& name, int64_t size,
                                                     const std::string& bound_as) {
  const StoredTensor* found = checkpoint_.find(name);
  if (found == nullptr) {
    return Error{
        ErrorCode::kCorrupt,
        fmt::format("tensor {} is missing, and the configuration asks for it; is the download complete?", name),
        checkpoint_.path()};
  }
  const StoredTensor& tensor = *found;
  TRY_STATUS(take(tensor, bound_as, TensorUse::kVector));
  std::optional<DType> dtype = dense_dtype(tensor);
  if (!dtype) {
    return tensor_error(tensor, ErrorCode::kUnsupported,
                        fmt::format("type {} is not supported as a vector", tensor.type));
  }
  if (tensor.extents != std::vector{size}) {
    return tensor_error(
        tensor, ErrorCode::kCorrupt,
        fmt::format("has shape {}, but the configuration asks for [{}]", shape_text(tensor.extents), size));
  }
  TRY_BIND(Shape extents, Shape::make(tensor.extents));
  TRY_BIND(Tensor dense, Tensor::make(*dtype, extents, tensor.data()));
  state_.done_bytes += static_cast<int64_t>(tensor.bytes.size());
  std::vector<float> values = dense.to_floats();
  const auto bad = std::ranges::find_if(values, [](float value) { return !std::isfinite(value); });
  if (computes_ && bad != values.end()) {
    return tensor_error(
        tensor, ErrorCode::kCorrupt,
        fmt::format("number {} is {}; the file is damaged, or its maker overflowed", bad - values.begin(), *bad));
  }
  return values;
}

Result<std::shared_ptr<const PackedVector>> CheckpointBinder::bias(const std::vector<WeightPart>& parts,
                                                                   const std::string& bound_as) {
  std::vector<float> values;
  for (const WeightPart& part : parts) {
    TRY_BIND(std::vector<float> own, numbers(part.name + ".bias", part.rows, bound_as));
    if (part.halves_alternate) {
      for (int64_t row : halves_apart(part.rows)) values.push_back(own[static_cast<size_t>(row)]);
    } else if (checkpoint_.dialect().rope_rows_interleaved && part.rope_heads > 0) {
      for (int64_t row : deinterleaved_rows(part.rows, part.rope_heads))
        values.push_back(own[static_cast<size_t>(row)]);
    } else {
      values.insert(values.end(), own.begin(), own.end());
    }
  }
  return backend_.upload(values);
}

Status CheckpointBinder::rewrite(std::span<const WeightPart> parts, PackUse use, std::vector<QTensor>& segments) {
  if (computes_) {
    for (const QTensor& segment : segments) {
      // Backends look at the scales of blocks where they read them.
      if (segment.codec().packing != Packing::kGgufBlock) TRY_STATUS(segment.check_finite(0, segment.rows()));
    }
  }
  if (!rewrite_) return {};
  std::vector<Codec> before;
  for (const QTensor& segment : segments) before.push_back(segment.codec());
  TRY_STATUS(rewrite_(parts, use, segments));
  for (size_t i = 0; i < parts.size(); ++i) {
    if (segments[i].codec() == before[i]) continue;
    const StoredTensor* codes = find_codes(checkpoint_, parts[i].name);
    TensorReport& entry = report_.tensors[static_cast<size_t>(codes - checkpoint_.tensors().data())];
    entry.read_as = before[i].name;
    entry.quantised_to = segments[i].codec().name;
  }
  return {};
}

Result<Binder::Bound> CheckpointBinder::bind_matrix(const std::vector<WeightPart>& parts, int64_t cols, BiasRule rule,
                                                    Split, PackUse use) {
  Bound bound{joined_names(parts), nullptr, nullptr, {}};
  TRY_STATUS(check_parts(parts));
  std::vector<QTensor> segments;
  std::vector<StoredMatrix::Source> sources;
  PackUse packed_for = use;
  for (const WeightPart& part : parts) {
    TRY_BIND(StoredMatrix stored, matrix(part, cols, bound.name));
    segments.push_back(std::move(stored.matrix));
    if (stored.weights_only && use == PackUse::kLinear) packed_for = PackUse::kWideRows;
    sources.insert(sources.end(), stored.sources.begin(), stored.sources.end());
    if (!stored.input_scale) continue;
    ++input_scales_;
    bound.input_scale = std::max(bound.input_scale.value_or(0), *stored.input_scale);
  }
  TRY_STATUS(rewrite(parts, use, segments));
  TRY_BIND(bound.matrix, backend_.pack(segments, packed_for));
  segments.clear();
  // The backend holds its own copy: what the file's pages held is not needed again.
  for (const StoredMatrix::Source& source : sources) {
    source.tensor->data().release_pages();
    state_.done_bytes += static_cast<int64_t>(source.tensor->bytes.size());
  }
  if (rule == BiasRule::kRequired) {
    TRY_BIND(bound.bias, bias(parts, bound.name));
  }
  report_.weights.push_back({bound.name, bound.matrix->rows(), bound.matrix->cols(), bound.matrix->info()});
  state_.weight = bound.name;
  if (progress_) progress_(state_);
  return bound;
}

Result<Norm> CheckpointBinder::norm(const std::string& name, int64_t size, float eps, NormRule rule) {
  TRY_BIND(std::vector<float> weight, numbers(name + ".weight", size, name));
  const bool add_one = rule.one_plus && !checkpoint_.dialect().norms_hold_one;
  for (float& value : weight) value = rule.scale * (add_one ? value + 1 : value);
  Norm norm{name, nullptr, eps};
  TRY_BIND(norm.weight, backend_.upload(weight));
  return norm;
}

Result<LayerNorm> CheckpointBinder::layer_norm(const std::string& name, int64_t size, float eps) {
  LayerNorm norm{name, nullptr, nullptr, eps};
  TRY_BIND(std::vector<float> weight, numbers(name + ".weight", size, name));
  TRY_BIND(std::vector<float> bias, numbers(name + ".bias", size, name));
  TRY_BIND(norm.weight, backend_.upload(weight));
  TRY_BIND(norm.bias, backend_.upload(bias));
  return norm;
}

Result<LatentHeads> CheckpointBinder::latent_heads(const std::string& name, int heads, const LatentSpec& spec) {
  const int64_t each = spec.nope_dim + spec.value_dim;
  const WeightPart part{name, heads * each};
  TRY_BIND(StoredMatrix stored, matrix(part, spec.rank, name));
  std::vector<QTensor> rewritten = {std::move(stored.matrix)};
  TRY_STATUS(rewrite(std::span(&part, 1), PackUse::kLinear, rewritten));
  const QTensor& both = rewritten.front();
  LatentHeads made;
  std::vector<float> row(static_cast<size_t>(spec.rank));
  auto pack = [&](int64_t rows, int64_t cols, const std::vector<float>& values) -> Result<Weight<Split::kNone>> {
    TRY_BIND(QTensor tensor, QTensor::from_dense(Tensor::from_floats(Shape{rows, cols}, values), both.origin()));
    TRY_BIND(auto packed, backend_.pack(std::span(&tensor, 1), PackUse::kLinear));
    return Weight<Split::kNone>{name, std::move(packed), nullptr, {}};
  };
  for (int head = 0; head < heads; ++head) {
    std::vector<float> keys(static_cast<size_t>(spec.rank * spec.nope_dim)), values;
    for (int64_t i = 0; i < each; ++i) {
      both.decode_row(head * each + i, row);
      if (i >= spec.nope_dim) {
        values.insert(values.end(), row.begin(), row.end());
        continue;
      }
      for (size_t c = 0; c < row.size(); ++c)
        keys[c * static_cast<size_t>(spec.nope_dim) + static_cast<size_t>(i)] = row[c];
    }
    TRY_BIND(auto key, pack(spec.rank, spec.nope_dim, keys));
    TRY_BIND(auto value, pack(spec.value_dim, spec.rank, values));
    made.keys.push_back(std::move(key));
    made.values.push_back(std::move(value));
  }
  for (const StoredMatrix::Source& source : stored.sources) {
    source.tensor->data().release_pages();
    state_.done_bytes += static_cast<int64_t>(source.tensor->bytes.size());
  }
  report_.weights.push_back({name, heads * each, spec.rank, made.keys.front().matrix->info()});
  state_.weight = name;
  if (progress_) progress_(state_);
  return made;
}

Result<std::shared_ptr<const PackedVector>> CheckpointBinder::vector(const std::string& name, int64_t size) {
  TRY_BIND(std::vector<float> values, numbers(name, size, name));
  return backend_.upload(values);
}

bool CheckpointBinder::has(const std::string& name) const {
  if (name == kHead && head_is_tied_copy_) return false;
  return find_codes(checkpoint_, name) != nullptr;
}

void CheckpointBinder::note_unused_scales() {
  if (input_scales_ > 0) {
    report_.warnings.push_back(
        fmt::format("{} static input scales are read and not used: activations are not quantised to the checkpoint's "
                    "type",
                    input_scales_));
  }
}

/// One line for each pair of codecs, so that no second rounding goes unsaid.
void CheckpointBinder::note_rewritten() {
  std::map<std::pair<std::string, std::string>, int64_t> counts;
  for (const TensorReport& tensor : report_.tensors) {
    if (!tensor.quantised_to.empty()) ++counts[{tensor.read_as, tensor.quantised_to}];
  }
  for (const auto& [codecs, count] : counts) {
    const bool was_dense = codecs.first == "f32" || codecs.first == "f16" || codecs.first == "bf16";
    report_.warnings.push_back(fmt::format("{} matrices are quantised from {} to {}{}", count, codecs.first,
                                           codecs.second, was_dense ? "" : ": their codes were decoded first"));
  }
}

CheckpointBinder::LeftOver CheckpointBinder::left_over(std::span<const std::string> unneeded) {
  LeftOver left;
  for (TensorReport& tensor : report_.tensors) {
    if (tensor.use != TensorUse::kNotBound) continue;
    if (head_is_tied_copy_ && tensor.name == std::string(kHead) + ".weight") {
      tensor.use = TensorUse::kTiedCopy;
      continue;
    }
    const bool known = std::ranges::any_of(unneeded, [&](std::string_view of) {
      return of.ends_with('.') ? tensor.name.find(of) != std::string::npos : ends_with(tensor.name, of);
    });
    if (known) {
      tensor.use = TensorUse::kUnneeded;
      continue;
    }
    if (belongs_to_other_modality(tensor.name)) {
      ++left.other_modality;
      continue;
    }
    if (looks_like_scale(tensor.name)) {
      left.scales.push_back(tensor.file_name);
      continue;
    }
    if (ends_with(tensor.name, ".bias")) {
      const StoredTensor* owner = find_codes(checkpoint_, tensor.name.substr(0, tensor.name.size() - 5));
      bool bound = owner != nullptr && report_.tensors[static_cast<size_t>(owner - checkpoint_.tensors().data())].use !=
                                           TensorUse::kNotBound;
      if (bound) {
        left.biases.push_back(tensor.file_name);
        continue;
      }
    }
    (is_in_layer(tensor.name) ? left.in_layers : left.others).push_back(tensor.file_name);
  }
  return left;
}

Status CheckpointBinder::finish(std::span<const std::string> unneeded) {
  TRY_STATUS(cache_scales_);
  note_unused_scales();
  note_rewritten();
  const LeftOver left = left_over(unneeded);
  if (!left.scales.empty()) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("these tensors look like scales, and no weight takes them: {}; a model computed without "
                             "them would be wrong",
                             shown_list(left.scales)),
                 checkpoint_.path()};
  }
  if (!left.biases.empty()) {
    return Error{
        ErrorCode::kUnsupported,
        fmt::format("these biases belong to weights that the configuration gives none: {}", shown_list(left.biases)),
        checkpoint_.path()};
  }
  if (!left.in_layers.empty()) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("these tensors stand in layers, and nothing of the configuration takes them: {}; a model "
                             "computed without them would be another one",
                             shown_list(left.in_layers)),
                 checkpoint_.path()};
  }
  if (!left.others.empty()) {
    report_.warnings.push_back(fmt::format("{} tensors are not used by this model", left.others.size()));
  }
  if (left.other_modality > 0) {
    report_.warnings.push_back(
        fmt::format("{} tensors of picture or sound encoders are not loaded", left.other_modality));
  }
  return {};
}

}  // namespace vernier
