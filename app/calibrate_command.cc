#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "api/backend_choice.h"
#include "api/load_tokenizer.h"
#include "api/option_words.h"
#include "app/commands.h"
#include "app/output_file.h"
#include "app/text_tokens.h"
#include "audit/calibrate.h"
#include "base/progress.h"
#include "base/unfinished_output.h"

namespace vernier {
namespace {

/// Fewer may not meet the largest numbers that a model makes.
constexpr int64_t kFewTokens = 256;

struct CalibrateFlags {
  std::string model, text, out;
  std::string dtype = "e4m3";
  std::string granularity = "tensor";
  std::string numerics = "fast";
  int64_t tokens = 8192;
  bool overwrite = false;
  CalibrateOptions options;
};

Result<CodecId> scaled_type(const std::string& word) {
  const Result<std::optional<CodecId>> type = parse_cache_type("--dtype", word);
  if (type.ok() && *type && has_cache_scale(**type)) return **type;
  return invalid_argument("--dtype {}: expected e4m3 or e5m2, the types of a cache that have scales", word);
}

/// Before any work is done for it.
Status check_out(const CalibrateFlags& flags) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path out(flags.out), folder = out.has_parent_path() ? out.parent_path() : fs::path(".");
  if (fs::is_directory(out, ignored)) return invalid_argument("--out {} is a folder; name a file", flags.out);
  if (!fs::is_directory(folder, ignored))
    return not_found("--out {}: there is no folder {}", flags.out, folder.string());
  if (fs::exists(out, ignored) && !flags.overwrite) {
    return invalid_argument("{} exists; give another --out, or --overwrite", flags.out);
  }
  return check_writable(flags.out + ".partial");  // which CacheScaleFile makes first
}

void print_json(const CalibrateFlags& flags, const Calibration& made, int64_t tokens) {
  nlohmann::json layers = nlohmann::json::array();
  for (const CalibratedLayer& layer : made.layers) {
    const CacheScaleFile::Scales& scales = made.file.layers.at(layer.layer);
    nlohmann::json row = {{"layer", layer.layer}, {"k_largest", layer.k_largest}, {"k_scale", scales.k}};
    if (!layer.one_row) row.update({{"v_largest", layer.v_largest}, {"v_scale", scales.v}});
    layers.push_back(std::move(row));
  }
  fmt::print("{}\n", nlohmann::json{{"out", flags.out},
                                    {"stored", cache_type_name(flags.options.stored)},
                                    {"granularity", flags.granularity},
                                    {"margin", flags.options.margin},
                                    {"tokens", tokens},
                                    {"layers", std::move(layers)}}
                         .dump());
}

/// "0.0625", "0.03125 to 0.125" of several.
std::string span_of(const std::vector<float>& numbers) {
  const auto [least, most] = std::ranges::minmax(numbers);
  return least == most ? fmt::format("{:.4g}", least) : fmt::format("{:.4g} to {:.4g}", least, most);
}

void print_text(const CalibrateFlags& flags, const Calibration& made, int64_t tokens) {
  fmt::print("{:>5}  {:<20} {:<20} {:<20} {}\n", "layer", "largest key", "scale", "largest value", "scale");
  for (const CalibratedLayer& layer : made.layers) {
    const CacheScaleFile::Scales& scales = made.file.layers.at(layer.layer);
    fmt::print("{:>5}  {:<20} {:<20} {:<20} {}\n", layer.layer, span_of(layer.k_largest), span_of(scales.k),
               layer.one_row ? "in the key's row" : span_of(layer.v_largest), layer.one_row ? "" : span_of(scales.v));
  }
  fmt::print("{}: scales of {} layers from {} tokens; use them with --kv-cache-dtype {} --kv-scales {}\n", flags.out,
             made.layers.size(), tokens, cache_type_name(flags.options.stored), flags.out);
}

Status run_calibrate(const CalibrateFlags& flags) {
  CalibrateOptions options = flags.options;
  TRY_STATUS(check_out(flags));
  TRY_BIND(const std::string path, find_model(flags.model));
  TRY_BIND(const std::unique_ptr<Checkpoint> checkpoint, Checkpoint::open(path));
  TRY_STATUS(check_no_input(flags.out, *checkpoint, flags.text));
  TRY_BIND(const std::string text, read_text(flags.text));
  TRY_BIND(const Tokenizer tokenizer, load_tokenizer(checkpoint->tokenizer()));
  TRY_BIND(TextTokens tokens, tokenise_text(tokenizer, text, flags.tokens));
  const int64_t count = std::ssize(tokens.text);
  options.prefix = std::move(tokens.prefix);

  BackendOptions of_backend;
  of_backend.threads = global_options().threads;
  of_backend.isa = global_options().isa;
  TRY_BIND(of_backend.numerics, parse_numerics("--numerics", flags.numerics));
  TRY_BIND(std::unique_ptr<Backend> backend, make_backend(of_backend));
  Progress progress("calibrating", count, ProgressUnit::kCount);
  options.on_progress = [&](int64_t done) { progress.set(done); };
  TRY_BIND(Calibration made, calibrate_cache(*checkpoint, std::move(backend), tokens.text, options));
  progress.finish();
  made.file.path = flags.out;
  TRY_STATUS(made.file.write());
  if (count < kFewTokens) {
    log_warning("scales from {} tokens: other text may go far beyond what was seen; give {} or more", count,
                kFewTokens);
  }
  if (global_options().json) {
    print_json(flags, made, count);
  } else {
    print_text(flags, made, count);
  }
  return {};
}

}  // namespace

void add_calibrate_command(CLI::App& app) {
  auto flags = std::make_shared<CalibrateFlags>();
  CLI::App* command = app.add_subcommand("calibrate", "Make the scales of an FP8 cache from text, as a side-car file");
  command->add_option("MODEL", flags->model, "A GGUF file, a Hugging Face folder, or a short name")->required();
  command->add_option("--text", flags->text, "A file of text like that to be served (default: a built-in text)");
  command->add_option("--out", flags->out, "The side-car file, for --kv-scales")->required();
  command->add_option("--dtype", flags->dtype, "What the cache will store: e4m3 or e5m2")->capture_default_str();
  command
      ->add_option("--granularity", flags->granularity,
                   "tensor: one scale for the keys and one for the values of a layer; head: for each KV head")
      ->check(CLI::IsMember({"tensor", "head"}))
      ->capture_default_str();
  command->add_option("--margin", flags->options.margin, "Room above the largest number that was seen")
      ->check(CLI::Range(1.0, 1e6))
      ->capture_default_str();
  command->add_option("--tokens", flags->tokens, "Tokens of the text at most; 0: all of it")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))
      ->capture_default_str();
  command->add_option("--context", flags->options.window, "Tokens of one sequence; the text is cut into such")
      ->check(CLI::Range(4, 1 << 20))
      ->capture_default_str();
  command
      ->add_option("--numerics", flags->numerics, "fast: activations may be quantised inside a product; exact: float32")
      ->capture_default_str();
  command->add_flag("--overwrite", flags->overwrite, "Replaces what stands at --out");
  set_work(*command, [flags]() -> Status {
    UnfinishedOutput::remove_on_signals();
    TRY_BIND(flags->options.stored, scaled_type(flags->dtype));
    flags->options.per_head = flags->granularity == "head";
    return run_calibrate(*flags);
  });
}

}  // namespace vernier
