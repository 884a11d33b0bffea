#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/decoder_spec.h"
#include "ops/config.h"

namespace vernier {

/// Steps that every family's reader shares. Each reads its keys, checks them, and leaves the others unread so that
/// Config::finish names them.

/// Bounds that keep every size computed from a configuration within int64, and every count within int.
inline constexpr int64_t kMostColumns = int64_t{1} << 24;
inline constexpr int64_t kMostLayers = 4096;
inline constexpr int64_t kMostPositions = 1 << 30;  // blocks and chunks are added to positions in 32 bits
inline constexpr int64_t kMostHeads = 1 << 16;
inline constexpr int64_t kMostHeadDim = 1 << 14;

/// A count under `key`: 1 to `most`; required where there is no fallback.
struct ConfigSize {
  std::string_view key;
  std::optional<int64_t> fallback;
  int64_t most;
};
Result<int64_t> read_size(Config& config, const ConfigSize& size);

/// Marks the keys that no forward pass of any family depends on.
void ignore_harmless(Config& config);

/// Values that a family assumes where the configuration has no such key; unset ones are required.
struct SizeDefaults {
  std::optional<int64_t> vocab, hidden, ffn, layers, heads, kv_heads, head_dim, max_positions;
};

/// Sizes, norm epsilon and tie flag; marks the keys that no forward pass depends on. `attn` is the same in all layers
/// so far: without rope, window and scale.
struct DecoderSizes {
  DecoderSpec spec;  ///< all but layers
  AttnSpec attn;
  int64_t layers = 0;
  int64_t ffn = 0;
};
Result<DecoderSizes> read_sizes(Config& config, const SizeDefaults& defaults, bool tied_by_default);

/// "silu" or "gelu_pytorch_tanh" under `key`.
Result<Act> read_act(Config& config, std::string_view key, std::string_view fallback);

/// Rope in either spelling: `rope_theta` with `rope_scaling`, or `rope_parameters`. Both at once must agree.
Result<RopeSpec> read_rope(Config& config, int head_dim, double default_base);
/// What a rope takes where its settings leave it out.
struct RopeDefaults {
  int head_dim = 0;
  double base = 10000;
  double max_positions = 0;  ///< of the model
};
/// One set of settings as `rope_scaling` or `rope_parameters` spell it.
Result<RopeSpec> parse_rope(const nlohmann::json& settings, const std::string& where, const RopeDefaults& defaults);

/// Which layers slide, from `layer_types`; empty where the configuration has none.
Result<std::vector<bool>> read_layer_types(Config& config, int64_t layers);
/// A window in tokens, the query included; at least 1.
Result<std::optional<int>> read_window(Config& config, std::optional<int64_t> fallback);
/// Qwen's rule: `layer_types`, else layers from `max_window_layers` on; none unless `use_sliding_window`.
Result<std::vector<std::optional<int>>> read_qwen_windows(Config& config, int64_t layers);

/// Every second layer slides, from the first on, unless `layer_types` says otherwise.
Result<std::vector<std::optional<int>>> read_alternating_windows(Config& config, int64_t layers, int64_t fallback);

/// An error unless `key` is absent, null or false.
Status require_false(Config& config, std::string_view key, std::string_view why);

/// All layers equal but for their windows.
void fill_layers(DecoderSizes& sizes, const AttnSpec& attn, const std::vector<std::optional<int>>& windows);

Error config_error(const Config& config, std::string message);

}  // namespace vernier
