#include "audit/numerics_player.h"

#include <algorithm>
#include <numeric>

#include "tensor/tensor.h"

namespace vernier {

namespace {

QTensor dense_rows(int64_t rows, int64_t cols, std::span<const float> numbers) {
  const std::vector<float> values(numbers.begin(), numbers.end());
  return QTensor::from_dense(Tensor::from_floats(Shape{rows, cols}, values), "numbers under test").value();
}

constexpr size_t kMostIdentities = 8;

}  // namespace

Result<std::unique_ptr<NumericsPlayer>> NumericsPlayer::make(Backend& backend, const KvLayout& layout,
                                                             int64_t max_rows) {
  std::unique_ptr<NumericsPlayer> player(new NumericsPlayer(backend));
  TRY_BIND(player->kv_, backend.make_kv(layout));
  TRY_BIND(player->ops_, backend.make_ops(*player->kv_, max_rows));
  return player;
}

void NumericsPlayer::begin(const StepView& view, bool own_tokens) {
  inputs_.clear();
  StepView own = view;
  if (own_tokens) {
    row_numbers_.resize(static_cast<size_t>(view.rows()));
    std::iota(row_numbers_.begin(), row_numbers_.end(), 0);
    own.tokens = row_numbers_;
  }
  ops_->begin(own);
}

Value NumericsPlayer::put(std::span<const float> numbers, int64_t cols) {
  const QTensor rows = dense_rows(static_cast<int64_t>(numbers.size()) / cols, cols, numbers);
  auto packed = backend_.pack(std::span(&rows, 1), PackUse::kEmbedding);
  CHECK(packed.ok(), "float32 rows cannot be packed: {}", packed.error().to_string());
  inputs_.push_back({"numbers under test", *std::move(packed), nullptr, {}});
  return ops_->embed(inputs_.back(), 1);
}

bool NumericsPlayer::rounds_to_e4m3(const PackedMatrix& matrix, int64_t rows) const {
  return std::ranges::any_of(backend_.explain_linear(matrix, rows),
                             [](const Choice& choice) { return choice.chosen().kernel.ends_with("_e4m3"); });
}

std::shared_ptr<const PackedMatrix> NumericsPlayer::identity(int64_t cols) {
  auto known = std::ranges::find(identities_, cols, [](const auto& matrix) { return matrix->cols(); });
  if (known != identities_.end()) return *known;
  std::vector<float> values(static_cast<size_t>(cols * cols));
  for (int64_t i = 0; i < cols; ++i) values[static_cast<size_t>(i * (cols + 1))] = 1;
  const QTensor rows = dense_rows(cols, cols, values);
  auto packed = backend_.pack(std::span(&rows, 1), PackUse::kLinear);
  CHECK(packed.ok(), "an identity matrix cannot be packed: {}", packed.error().to_string());
  if (identities_.size() >= kMostIdentities) identities_.erase(identities_.begin());
  return identities_.emplace_back(*std::move(packed));
}

Shard NumericsPlayer::put_shard(std::span<const float> numbers, int64_t cols) {
  const Value whole = put(numbers, cols);
  return ops_->linear(whole, Weight<Split::kColumns>{"identity", identity(cols), nullptr, {}});
}

std::vector<float> NumericsPlayer::take(const Value& x) {
  Result<std::vector<float>> numbers = ops_->read(x);
  CHECK(numbers.ok(), "a result cannot be read: {}", numbers.error().to_string());
  return *std::move(numbers);
}

std::vector<float> NumericsPlayer::take(const Shard& x) {
  const Weight<Split::kRows> through{"identity", identity(x.cols()), nullptr, {}};
  return take(ops_->reduce(ops_->linear(x, through)));
}

}  // namespace vernier
