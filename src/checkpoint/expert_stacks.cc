#include "checkpoint/expert_stacks.h"

#include <array>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace vernier {
namespace {

constexpr std::string_view kExperts = ".experts.";
constexpr int64_t kMostExperts = 4096;

/// What the end of a stack's name is for one expert's tensor.
constexpr std::array kEndings = {
    std::pair<std::string_view, std::string_view>{".scale", ".scale"},  // of NVFP4 in GGUF files, one an expert
    std::pair<std::string_view, std::string_view>{".input_scale", ".input_scale"},
    std::pair<std::string_view, std::string_view>{".weight", ".weight"},
    std::pair<std::string_view, std::string_view>{".bias", ".bias"},
    std::pair<std::string_view, std::string_view>{"_bias", ".bias"},
    std::pair<std::string_view, std::string_view>{"_blocks", "_blocks"},
    std::pair<std::string_view, std::string_view>{"_scales", "_scales"},
    std::pair<std::string_view, std::string_view>{"", ".weight"},
};
constexpr std::array<std::string_view, 4> kMatrices = {"gate_up_proj", "gate_proj", "up_proj", "down_proj"};

struct StackName {
  std::string_view layer;   // "model.layers.0.mlp"
  std::string_view matrix;  // "down_proj"
  std::string_view ending;  // of each expert's tensor
};

std::optional<StackName> parse(std::string_view name) {
  const size_t at = name.find(kExperts);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = name.substr(at + kExperts.size());
  for (std::string_view matrix : kMatrices) {
    if (!rest.starts_with(matrix)) continue;
    for (const auto& [stacked, single] : kEndings) {
      if (rest.substr(matrix.size()) == stacked) return StackName{name.substr(0, at), matrix, single};
    }
  }
  return std::nullopt;
}

/// 3 of "a[3]". One that was taken apart is named by its expert; other tensors keep the end of their file's name.
std::optional<size_t> stack_place(const StoredTensor& tensor) {
  const std::string_view name = tensor.file_name;
  const size_t begin = name.rfind('[');
  if (!name.ends_with(']') || begin == std::string_view::npos || tensor.name.ends_with(']')) return std::nullopt;
  size_t place = 0;
  const char* last = name.data() + name.size() - 1;
  const auto [end, failure] = std::from_chars(name.data() + begin + 1, last, place);
  // A range of rows is no place.
  return failure == std::errc() && end == last ? std::optional(place) : std::nullopt;
}

}  // namespace

void take_expert_stacks_apart(std::vector<StoredTensor>& tensors) {
  std::vector<StoredTensor> all;
  all.reserve(tensors.size());
  for (StoredTensor& tensor : tensors) {
    const std::optional<StackName> stack = parse(tensor.name);
    const int64_t experts = tensor.extents.empty() ? 0 : tensor.extents.front();
    if (!stack || tensor.extents.size() < (stack->ending.ends_with("scale") ? 1 : 2) || experts < 1 ||
        experts > kMostExperts || tensor.bytes.size() % static_cast<size_t>(experts) != 0) {
      all.push_back(std::move(tensor));
      continue;
    }
    const size_t bytes = tensor.bytes.size() / static_cast<size_t>(experts);
    for (int64_t expert = 0; expert < experts; ++expert) {
      StoredTensor one;
      one.name = fmt::format("{}.experts.{}.{}{}", stack->layer, expert, stack->matrix, stack->ending);
      one.file_name = fmt::format("{}[{}]", tensor.file_name, expert);
      one.type = tensor.type;
      one.codec = tensor.codec;
      one.extents.assign(tensor.extents.begin() + 1, tensor.extents.end());
      one.bytes = tensor.bytes.subspan(static_cast<size_t>(expert) * bytes, bytes);
      one.file = tensor.file;
      all.push_back(std::move(one));
    }
  }
  tensors = std::move(all);
}

bool is_of_stack(const StoredTensor& tensor) {
  return stack_place(tensor).has_value();
}

std::string stack_of(const StoredTensor& tensor) {
  return tensor.file_name.substr(0, is_of_stack(tensor) ? tensor.file_name.rfind('[') : std::string::npos);
}

size_t place_in_stack(const StoredTensor& tensor) {
  return stack_place(tensor).value_or(0);
}

}  // namespace vernier
