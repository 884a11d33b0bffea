#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace vernier {

/// What one run of a benchmark measured.
struct BenchRates {
  double prefill_tokens_per_s = 0;
  double decode_tokens_per_s = 0;
  double deep_decode_tokens_per_s = 0;
  double deep_prefill_tokens_per_s = 0;
};

/// What to measure, the same for every engine.
struct BenchShape {
  int prefill_tokens = 512;
  int decode_tokens = 64;
  int depth_tokens = 2048;  ///< in the cache before the second decode and prefill
};

/// llama.cpp's own benchmark program, run as a process of its own on the same file with the same threads.
class PeerBench {
 public:
  /// `program` empty: llama-bench on PATH. Fails where there is none, and says how to name one.
  static Result<PeerBench> find(const std::string& program);

  const std::string& program() const { return program_; }
  Result<BenchRates> run(const std::string& model_path, int threads, const BenchShape& shape) const;

 private:
  explicit PeerBench(std::string program) : program_(std::move(program)) {}

  std::string program_;
};

}  // namespace vernier
