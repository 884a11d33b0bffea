#include "app/peer_bench.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

namespace vernier {
namespace {

/// Runs a program without a shell and returns what it wrote to standard output.
Result<std::string> output_of(const std::vector<std::string>& arguments) {
  int ends[2];
  if (::pipe(ends) != 0) return make_error(ErrorCode::kInternal, "no pipe: {}", std::strerror(errno));
  pid_t child = ::fork();
  if (child < 0) return make_error(ErrorCode::kInternal, "cannot start {}: {}", arguments[0], std::strerror(errno));
  if (child == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
    std::vector<char*> argv;
    for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ::close(ends[1]);
  std::string output;
  char buffer[4096];
  for (ssize_t got; (got = ::read(ends[0], buffer, sizeof buffer)) != 0;) {
    if (got < 0 && errno != EINTR) break;
    if (got > 0) output.append(buffer, static_cast<size_t>(got));
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return make_error(ErrorCode::kInternal, "{} failed; run it by hand to see why", fmt::join(arguments, " "));
  }
  return output;
}

/// One JSON object a line, as llama-bench -o jsonl prints them; average tokens a second of the first test that has as
/// many prompt and generated tokens.
Result<double> rate_of(const std::string& lines, int prompt_tokens, int generated_tokens) {
  std::istringstream stream(lines);
  for (std::string line; std::getline(stream, line);) {
    nlohmann::json row = nlohmann::json::parse(line, nullptr, false);
    if (!row.is_object() || !row.contains("avg_ts")) continue;
    if (row.value("n_prompt", -1) == prompt_tokens && row.value("n_gen", -1) == generated_tokens) {
      return row["avg_ts"].get<double>();
    }
  }
  return corrupt("llama-bench printed no test of {} prompt and {} generated tokens", prompt_tokens, generated_tokens);
}

}  // namespace

Result<PeerBench> PeerBench::find(const std::string& program) {
  if (!program.empty()) {
    if (::access(program.c_str(), X_OK) != 0) return not_found("--peer {} is not an executable file", program);
    return PeerBench(program);
  }
  const char* path = ::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string candidate = folder + "/llama-bench";
    if (::access(candidate.c_str(), X_OK) == 0) return PeerBench(candidate);
  }
  return not_found("llama-bench is not on PATH; build llama.cpp and name its program with --peer FILE");
}

Result<BenchRates> PeerBench::run(const std::string& model_path, int threads, const BenchShape& shape) const {
  const std::vector<std::string> common = {program_, "-m", model_path, "-t",   std::to_string(threads),
                                           "-r",     "1",  "-o",       "jsonl"};
  auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> all = common;
    all.insert(all.end(), more.begin(), more.end());
    return output_of(all);
  };
  const std::string prompt = std::to_string(shape.prefill_tokens), generated = std::to_string(shape.decode_tokens);
  TRY_BIND(std::string shallow, with({"-p", prompt, "-n", generated}));
  TRY_BIND(std::string deep, with({"-p", prompt, "-n", generated, "-d", std::to_string(shape.depth_tokens)}));
  BenchRates rates;
  TRY_BIND(rates.prefill_tokens_per_s, rate_of(shallow, shape.prefill_tokens, 0));
  TRY_BIND(rates.decode_tokens_per_s, rate_of(shallow, 0, shape.decode_tokens));
  TRY_BIND(rates.deep_decode_tokens_per_s, rate_of(deep, 0, shape.decode_tokens));
  TRY_BIND(rates.deep_prefill_tokens_per_s, rate_of(deep, shape.prefill_tokens, 0));
  return rates;
}

}  // namespace vernier
