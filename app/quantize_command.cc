#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "api/load_tokenizer.h"
#include "app/commands.h"
#include "app/number_flags.h"
#include "audit/json_vocabulary.h"
#include "audit/quantise_checkpoint.h"
#include "base/progress.h"
#include "base/thread_pool.h"
#include "base/unfinished_output.h"

namespace vernier {
namespace {

struct QuantizeFlags {
  std::string model, to, out;
  std::string rest = "bf16";
  bool head = false, overwrite = false, requantise = false;
  std::vector<std::string> keep;
  std::optional<double> min_snr_db;
  int64_t shard_bytes = QuantiseJob().shard_bytes;
};

Result<QuantiseJob> make_job(const QuantizeFlags& flags, const Checkpoint& checkpoint) {
  TRY_BIND(QuantTarget target, find_quant_target("--to", flags.to));
  TRY_BIND(QuantTarget rest, find_quant_target("--rest", flags.rest));
  if (!rest.codec.is_dense()) return invalid_argument("--rest {}: expected bf16, f16 or f32", flags.rest);
  QuantiseJob job;
  const int threads = global_options().threads;
  job.request = {std::move(target), flags.head, flags.keep, flags.requantise, threads > 0 ? threads : usable_cpus()};
  job.out = flags.out;
  job.overwrite = flags.overwrite;
  job.rest = rest.codec.id;
  job.min_snr_db = flags.min_snr_db.value_or(job.min_snr_db);
  job.shard_bytes = flags.shard_bytes;
  if (checkpoint.tokenizer().gguf != nullptr) {
    TRY_BIND(job.vocabulary, read_vocabulary(checkpoint.tokenizer().gguf));
  } else if (flags.out.ends_with(".gguf") && !checkpoint.tokenizer().tokenizer_json.empty()) {
    TRY_BIND(job.vocabulary, vocabulary_of_json(checkpoint));
  }
  return job;
}

/// JSON has no infinity: a matrix that lost nothing has a null.
nlohmann::json decibels(double db) {
  return std::isfinite(db) ? nlohmann::json(db) : nlohmann::json(nullptr);
}

void print_json(const QuantiseSummary& summary, const std::string& out) {
  nlohmann::json matrices = nlohmann::json::array();
  for (const QuantisedMatrix& matrix : summary.matrices) {
    matrices.push_back({{"name", matrix.name},
                        {"from", matrix.from},
                        {"to", matrix.to},
                        {"shape", {matrix.rows, matrix.cols}},
                        {"bytes", matrix.bytes},
                        {"snr_db", decibels(matrix.loss.snr_db())},
                        {"worst_block_db", decibels(matrix.loss.worst_db)},
                        {"worst_block_at", {matrix.loss.worst_row, matrix.loss.worst_col}}});
  }
  const nlohmann::json all = {{"out", out},
                              {"source_bytes", summary.source_bytes},
                              {"written_bytes", summary.written_bytes},
                              {"snr_db", decibels(summary.all.snr_db())},
                              {"notes", summary.notes},
                              {"matrices", std::move(matrices)}};
  fmt::print("{}\n", all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

void print_text(const QuantiseSummary& summary, const std::string& out) {
  size_t width = 4;
  for (const QuantisedMatrix& matrix : summary.matrices) width = std::max(width, matrix.name.size());
  fmt::print("{:<{}}  {:>8}  {:<14} {:>8}  {:>14}  worst block\n", "matrix", width, "from", "to", "SNR dB",
             "[rows, cols]");
  for (const QuantisedMatrix& matrix : summary.matrices) {
    fmt::print("{:<{}}  {:>8}  {:<14} {:>8.2f}  {:>14}  {:.2f} dB at [{}, {}]\n", matrix.name, width, matrix.from,
               matrix.to, matrix.loss.snr_db(), fmt::format("[{}, {}]", matrix.rows, matrix.cols), matrix.loss.worst_db,
               matrix.loss.worst_row, matrix.loss.worst_col);
  }
  for (const std::string& note : summary.notes) fmt::print("note: {}\n", note);
  fmt::print("{}: {} matrices, {} of tensors become {}; signal to noise {:.2f} dB\n", out, summary.matrices.size(),
             format_bytes(summary.source_bytes), format_bytes(summary.written_bytes), summary.all.snr_db());
}

Status run_quantize(const QuantizeFlags& flags) {
  TRY_BIND(std::string path, find_model(flags.model));
  TRY_BIND(std::unique_ptr<Checkpoint> checkpoint, Checkpoint::open(path));
  TRY_BIND(QuantiseJob job, make_job(flags, *checkpoint));
  std::optional<Progress> bar;
  job.on_progress = [&](const BindProgress& state) {
    if (!bar) bar.emplace("quantising", state.total_bytes, ProgressUnit::kBytes);
    bar->set(state.done_bytes);
  };
  TRY_BIND(QuantiseSummary summary, quantise_checkpoint(*checkpoint, job));
  if (bar) bar->finish();
  if (global_options().json) {
    print_json(summary, flags.out);
  } else {
    print_text(summary, flags.out);
  }
  return {};
}

}  // namespace

void add_quantize_command(CLI::App& app) {
  auto flags = std::make_shared<QuantizeFlags>();
  CLI::App* command = app.add_subcommand("quantize", "Write a checkpoint's linear weights in a narrower format");
  command->add_option("MODEL", flags->model, "A GGUF file, a Hugging Face folder, or a short name")->required();
  command->add_option("--to", flags->to, "One of " + quant_target_names())->required();
  command->add_option("--out", flags->out, "A folder for Hugging Face's layout, or a file that ends in .gguf")
      ->required();
  command->add_flag("--quantize-head", flags->head, "The head's own matrix, too");
  command->add_option("--keep", flags->keep, "Module that stays as it is; * stands for anything; may be given often");
  command->add_option("--min-snr", flags->min_snr_db, "Writes nothing where a matrix has fewer dB of signal to noise");
  command->add_option("--rest", flags->rest, "What blocks of other matrices become in a folder: bf16, f16 or f32")
      ->capture_default_str();
  command->add_option("--shard-bytes", flags->shard_bytes, "Largest safetensors file (default 5 GiB)")
      ->transform(byte_size());
  command->add_flag("--allow-requantize", flags->requantise, "Decodes a checkpoint that is quantised already");
  command->add_flag("--overwrite", flags->overwrite, "Replaces what stands at --out");
  set_work(*command, [flags] {
    UnfinishedOutput::remove_on_signals();
    return run_quantize(*flags);
  });
}

}  // namespace vernier
