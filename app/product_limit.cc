#include "app/product_limit.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "models/decoder.h"

namespace vernier {

namespace {

constexpr std::array kParts = {
    std::tuple(&ProductShares::bf16, &MachineLimits::bf16_ops_per_s, "bf16"),
    std::tuple(&ProductShares::f32, &MachineLimits::f32_ops_per_s, "f32"),
    std::tuple(&ProductShares::int8, &MachineLimits::int8_ops_per_s, "int8"),
};

}  // namespace

std::string ProductShares::name() const {
  std::string all;
  for (const auto& [share, rate, name] : kParts) {
    if (this->*share > 0) all += (all.empty() ? "" : " and ") + std::string(name);
  }
  return all;
}

double ProductShares::limit(const MachineLimits& limits) const {
  double seconds = 0;
  for (const auto& [share, rate, name] : kParts) {
    if (this->*share == 0) continue;
    if (!(limits.*rate > 0)) return 0;
    seconds += this->*share / limits.*rate;
  }
  return seconds > 0 ? 1 / seconds : 0;
}

double ProductShares::*arithmetic_of(std::string_view kernel) {
  // E4M3 products of a GPU are told in bf16 ones, of which a chip that has them does half as many.
  if (kernel.find("bf16") != std::string_view::npos || kernel == "deep_tiles_e4m3") return &ProductShares::bf16;
  const bool floats = kernel.starts_with("float_") || kernel.starts_with("fp8_") || kernel.ends_with("_f32");
  return floats ? &ProductShares::f32 : &ProductShares::int8;
}

ProductShares product_shares(const LoadedModel& model, int64_t rows) {
  ProductShares shares;
  double all = 0;
  for (const DecoderPart& part : model.decoder().parts()) {
    if (part.matrix == nullptr || part.op == "embed" || part.op == "head") continue;
    const std::vector<Choice> choices = model.backend().explain_linear(*part.matrix, part.rows_of(rows));
    const double parameters = part.matrices_of_row() * static_cast<double>(part.matrix->rows() * part.matrix->cols());
    for (const Choice& choice : choices) {
      const double own = parameters / static_cast<double>(choices.size());
      shares.*arithmetic_of(choice.chosen().kernel) += own;
      all += own;
    }
  }
  if (!(all > 0)) return {.int8 = 1};
  for (const auto& [share, rate, name] : kParts) shares.*share /= all;
  return shares;
}

}  // namespace vernier
