#include "checkpoint/cache_scale_file.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <ostream>

#include "base/unfinished_output.h"
#include "checkpoint/byte_reader.h"
#include "checkpoint/strict_json.h"

namespace vernier {
namespace {

using Json = nlohmann::json;

Error file_error(const std::string& path, std::string message) {
  return Error{ErrorCode::kCorrupt, std::move(message), path};
}

/// As it is written, so that no two texts are one index.
std::optional<int> parse_index(const std::string& text) {
  int index = 0;
  if (text.size() > 1 && text[0] == '0') return std::nullopt;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), index);
  if (failure != std::errc() || end != text.data() + text.size() || index < 0) return std::nullopt;
  return index;
}

Result<std::vector<float>> read_numbers(const Json& given, const std::string& path, const std::string& what) {
  const Json list = given.is_array() ? given : Json::array({given});
  std::vector<float> numbers;
  for (const Json& number : list) {
    const double value = number.is_number() ? number.get<double>() : std::numeric_limits<double>::quiet_NaN();
    numbers.push_back(static_cast<float>(value));
    if (std::isfinite(numbers.back()) && numbers.back() > 0) continue;
    return file_error(path, fmt::format("{} is {}, expected a finite number above 0", what, printable(number.dump())));
  }
  if (numbers.empty()) return file_error(path, fmt::format("{} is an empty list", what));
  return numbers;
}

Result<CacheScaleFile::Scales> read_scales(const Json& given, const std::string& path, const std::string& what) {
  CacheScaleFile::Scales scales;
  if (!given.is_object()) {
    TRY_BIND(scales.k, read_numbers(given, path, what));
    scales.v = scales.k;
    return scales;
  }
  if (given.size() != 2 || !given.contains("k") || !given.contains("v")) {
    return file_error(
        path, fmt::format("{} is {}, expected a number, or {{\"k\": ..., \"v\": ...}}", what, printable(given.dump())));
  }
  TRY_BIND(scales.k, read_numbers(given.at("k"), path, what + " of keys"));
  TRY_BIND(scales.v, read_numbers(given.at("v"), path, what + " of values"));
  return scales;
}

Result<CodecId> read_type(const Json& cache, const std::string& path) {
  const Json type = cache.value("dtype", Json("float8_e4m3fn"));
  if (type == "float8_e4m3fn" || type == "fp8_e4m3" || type == "fp8") return CodecId::kE4M3Tensor;
  if (type == "float8_e5m2" || type == "fp8_e5m2") return CodecId::kE5M2Tensor;
  return file_error(path, fmt::format("\"dtype\" of \"kv_cache\" is {}, expected float8_e4m3fn or float8_e5m2",
                                      printable(type.dump())));
}

}  // namespace

Result<CacheScaleFile> CacheScaleFile::read(const std::string& path) {
  TRY_BIND(const Json tree, read_strict_json(path));
  CacheScaleFile file;
  file.path = path;
  const Json cache = tree.is_object() ? tree.value("kv_cache", Json()) : Json();
  const Json ranks = cache.is_object() ? cache.value("scaling_factor", Json()) : Json();
  if (!ranks.is_object() || ranks.empty()) {
    return file_error(path, "has no \"kv_cache\" with \"scaling_factor\", ranks to layers to scales");
  }
  const Json type = tree.value("model_type", Json());
  if (!type.is_null() && !type.is_string()) return file_error(path, "\"model_type\" is no string");
  if (type.is_string()) file.model_type = type.get<std::string>();
  TRY_BIND(file.stored, read_type(cache, path));
  std::string first_rank;
  for (const auto& [rank, layers] : ranks.items()) {
    if (!parse_index(rank) || !layers.is_object()) {
      return file_error(
          path, fmt::format("rank {} of \"scaling_factor\" is no number with an object of layers", printable(rank)));
    }
    std::map<int, Scales> own;
    for (const auto& [layer, given] : layers.items()) {
      const std::optional<int> index = parse_index(layer);
      if (!index) return file_error(path, fmt::format("layer {} is no number", printable(layer)));
      TRY_BIND(own[*index], read_scales(given, path, fmt::format("the scale of layer {}", *index)));
    }
    const auto differ = [](const auto& a, const auto& b) {
      return a.second.k != b.second.k || a.second.v != b.second.v;
    };
    if (first_rank.empty()) {
      first_rank = rank;
      file.layers = std::move(own);
    } else if (own.size() != file.layers.size() ||
               !std::equal(own.begin(), own.end(), file.layers.begin(),
                           [&](const auto& a, const auto& b) { return a.first == b.first && !differ(a, b); })) {
      return file_error(path, fmt::format("was made for several ranks, and ranks {} and {} disagree; a model on one "
                                          "rank needs one scale for each layer",
                                          first_rank, printable(rank)));
    }
  }
  return file;
}

Status CacheScaleFile::write() const {
  using Ordered = nlohmann::ordered_json;  // layers by number, for people
  const auto numbers = [](const std::vector<float>& values) {
    return values.size() == 1 ? Ordered(values.front()) : Ordered(values);
  };
  Ordered of_layers = Ordered::object();
  for (const auto& [layer, scales] : layers) {
    of_layers[std::to_string(layer)] = {{"k", numbers(scales.k)}, {"v", numbers(scales.v)}};
  }
  const char* type = stored == CodecId::kE4M3Tensor ? "float8_e4m3fn" : "float8_e5m2";
  const Ordered tree = {{"model_type", model_type},
                        {"kv_cache", {{"dtype", type}, {"scaling_factor", {{"0", std::move(of_layers)}}}}}};
  return write_whole(path, [&](std::ostream& out) { out << tree.dump(1) << '\n'; });
}

}  // namespace vernier
