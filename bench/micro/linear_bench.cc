// Matrix products of the CPU backend beside the machine's limits of the same run.
//
//   linear_bench [--threads 2] [--isa avx2] [--codec q4_1]... [--rows 1536] [--cols 576] [--mib 96] [--rounds 20]
//
// For each codec: packing rate, then products for 1 to 512 rows, as GB/s of weights and Gop/s (a multiply and an add
// are two). One product is timed at a time, going round `mib` of packed matrices (more than the last-level cache
// holds), and the fastest tenth counts: on a busy machine a short measurement often goes undisturbed where a long one
// never does. The reading that it is compared with is measured alike.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include "backends/cpu/kernels/peak.h"
#include "backends/cpu/linear.h"
#include "backends/cpu/linear_kernel_choice.h"
#include "backends/cpu/machine_limits.h"
#include "base/clock.h"

namespace vernier {
namespace {

struct Options {
  int threads = 2;
  std::string isa;
  std::vector<std::string> codecs = {"q4_1",  "q5_0",  "q8_0",          "q4_k",          "q6_k", "gguf_mxfp4",
                                     "nvfp4", "mxfp8", "e4m3[channel]", "e4m3[128x128]", "bf16"};
  int64_t rows = 1536;
  int64_t cols = 768;
  int64_t mib = 96;
  int rounds = 10;
  bool exact = false;
};

const Codec* find_codec(const std::string& name) {
  for (const Codec& codec : all_codecs()) {
    if (codec.name == name) return &codec;
  }
  return nullptr;
}

/// Seconds of one call, a tenth of the calls being faster; fn(i) is call i.
template <class Fn>
double fast_seconds(int calls, Fn fn) {
  std::vector<double> seconds;
  for (int i = 0; i < calls; ++i) {
    Stopwatch watch;
    fn(i);
    seconds.push_back(static_cast<double>(watch.elapsed_ns()) * 1e-9);
  }
  std::ranges::sort(seconds);
  return seconds[seconds.size() / 10];
}

std::vector<float> wave(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(0.37f * static_cast<float>(i % 100003)) + 0.1f;
  return values;
}

using ReadLoop = uint64_t (*)(const std::byte*, size_t);

Status bench_codec(const Options& options, const Codec& codec, Isa isa, ThreadPool& pool, const MachineLimits& limits,
                   ReadLoop read) {
  const Numerics numerics = options.exact ? Numerics::kExact : Numerics::kFast;
  TRY_BIND(QTensor tensor, encode(codec, options.rows, options.cols, wave(options.rows * options.cols)));
  std::vector<std::shared_ptr<const CpuMatrix>> matrices;
  PackArena arena;  // as the backend packs: small matrices share huge pages
  double pack_seconds = 1e30;
  int64_t bytes = 0;
  while (bytes < options.mib << 20) {
    Stopwatch watch;
    TRY_BIND(std::shared_ptr<const CpuMatrix> matrix,
             pack_matrix({&tensor, 1}, PackUse::kLinear, isa, numerics, pool, &arena));
    pack_seconds = std::min(pack_seconds, static_cast<double>(watch.elapsed_ns()) * 1e-9);
    bytes += matrix->info().bytes;
    matrices.push_back(std::move(matrix));
  }
  const PackedInfo info = matrices.front()->info();
  fmt::print("{} [{}, {}] {}, {:.2f} bits a weight; packed at {:.2f} GB/s\n", codec.name, options.rows, options.cols,
             info.layout, 8.0 * static_cast<double>(info.bytes) / static_cast<double>(options.rows * options.cols),
             static_cast<double>(tensor.stored_bytes()) / pack_seconds * 1e-9);
  const auto count = static_cast<int>(matrices.size());
  const double read_seconds = fast_seconds(count * options.rounds, [&](int i) {
    const uint8_t* data = matrices[static_cast<size_t>(i % count)]->segments()[0].data;
    constexpr int64_t kChunk = 32768;
    std::atomic<uint64_t> sum{0};
    pool.parallel_for(static_cast<int>(info.bytes / kChunk), [&](int chunk) {
      sum += read(reinterpret_cast<const std::byte*>(data + chunk * kChunk), kChunk);
    });
  });
  const double read_rate = static_cast<double>(info.bytes / 32768 * 32768) / read_seconds;
  fmt::print("  reading: {:.2f} GB/s\n", read_rate * 1e-9);
  LinearScratch scratch(pool.threads());
  for (int64_t tokens : {1, 2, 4, 8, 16, 64, 512}) {
    const std::vector<float> x = wave(tokens * options.cols);
    std::vector<float> out(static_cast<size_t>(tokens * options.rows));
    const int calls = tokens <= 16 ? count * options.rounds : 10 * options.rounds;
    const double seconds = fast_seconds(calls, [&](int i) {
      linear(pool, scratch, *matrices[static_cast<size_t>(i % count)],
             {x.data(), tokens, options.cols, options.cols, {}}, {out.data(), options.rows, nullptr, false});
    });
    const double gbps = static_cast<double>(info.bytes) / seconds;
    const double ops = 2.0 * static_cast<double>(options.rows * options.cols * tokens) / seconds;
    const CpuMatrix& first = *matrices.front();
    const LinearKernel kernel = choose_linear(first, first.segments()[0], tokens, nullptr);
    const bool integer = first.is_integer(first.segments()[0]);
    const double ceiling = integer                   ? limits.int8_ops_per_s
                           : takes_bf16_rows(kernel) ? limits.bf16_ops_per_s
                                                     : limits.f32_ops_per_s;
    const char* const unit = integer ? "int8 dot" : takes_bf16_rows(kernel) ? "bf16 dot" : "fma";
    fmt::print("  {:4} rows: {:7.2f} GB/s ({:4.0f} % of reading)  {:8.1f} Gop/s ({:4.0f} % of {})\n", tokens,
               gbps * 1e-9, 100 * gbps / read_rate, ops * 1e-9, 100 * ops / ceiling, unit);
  }
  return {};
}

ReadLoop read_loop(Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::kAvx512) return avx512::peak_loops().read;
  if (isa == Isa::kAvx2) return avx2::peak_loops().read;
#endif
  (void)isa;
  return baseline::peak_loops().read;
}

Status run(const Options& options) {
  TRY_BIND(Isa isa, choose_isa(options.isa));
  ThreadPool pool(options.threads);
  for (const std::string& name : options.codecs) {
    const Codec* codec = find_codec(name);
    if (codec == nullptr) return invalid_argument("no codec is called '{}'", name);
    const MachineLimits limits = measure_limits(pool, isa, 1 << 20);
    fmt::print("{} x {}: int8 dot {:.0f}, bf16 dot {:.0f}, fma {:.0f} Gop/s\n", options.threads, vernier::name(isa),
               limits.int8_ops_per_s * 1e-9, limits.bf16_ops_per_s * 1e-9, limits.f32_ops_per_s * 1e-9);
    TRY_STATUS(bench_codec(options, *codec, isa, pool, limits, read_loop(isa)));
  }
  return {};
}

}  // namespace
}  // namespace vernier

int main(int argc, char** argv) {
  vernier::Options options;
  CLI::App app("Matrix products of the CPU backend beside the machine's limits.");
  app.add_option("--threads", options.threads);
  app.add_option("--isa", options.isa);
  app.add_option("--codec", options.codecs);
  app.add_option("--rows", options.rows);
  app.add_option("--cols", options.cols);
  app.add_option("--mib", options.mib);
  app.add_option("--rounds", options.rounds);
  app.add_flag("--exact", options.exact);
  CLI11_PARSE(app, argc, argv);
  if (vernier::Status status = vernier::run(options); !status.ok()) {
    fmt::print(stderr, "{}\n", status.error().to_string());
    return 1;
  }
  return 0;
}
