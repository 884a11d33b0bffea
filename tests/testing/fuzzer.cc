#include "testing/fuzzer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <fstream>
#include <iterator>

extern "C" void __sanitizer_set_death_callback(void (*callback)()) __attribute__((weak));

namespace vernier::testing {
namespace {

constexpr int kInputs = 3000;  // of one ordinary run: a few seconds
constexpr size_t kPool = 400;  // inputs kept to be changed further
constexpr size_t kLongest = 1 << 20;
constexpr double kProcessorSeconds = 10;

/// SplitMix64: any state is a good one.
uint64_t next(uint64_t& random) {
  uint64_t x = (random += 0x9e3779b97f4a7c15ULL);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

size_t below(uint64_t& random, size_t bound) {
  return bound == 0 ? 0 : next(random) % bound;
}

/// The input that runs now, kept where a signal handler reaches it.
const std::string* current_input = nullptr;
std::array<char, 512> current_path{};

void keep_current_input() {
  if (current_input == nullptr) return;
  const int file = ::open(current_path.data(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file < 0) return;
  [[maybe_unused]] ssize_t written = ::write(file, current_input->data(), current_input->size());
  ::close(file);
  constexpr char kSaying[] = "the input that did it is in ";
  written = ::write(STDERR_FILENO, kSaying, sizeof kSaying - 1);
  written = ::write(STDERR_FILENO, current_path.data(), std::strlen(current_path.data()));
  written = ::write(STDERR_FILENO, "\n", 1);
}

void on_signal(int signal) {
  keep_current_input();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void watch_for_the_end() {
  if (&__sanitizer_set_death_callback != nullptr) {
    __sanitizer_set_death_callback(keep_current_input);
    std::signal(SIGABRT, on_signal);
    return;
  }
  for (int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL}) std::signal(signal, on_signal);
  // A count out of a file that is believed shows as an allocation of absurd size.
  const rlimit limit{8ULL << 30, 8ULL << 30};
  ::setrlimit(RLIMIT_AS, &limit);
}

void overwrite_number(std::string& input, uint64_t& random) {
  constexpr uint64_t kNumbers[] = {0,          1,          2,          4,          5,        0x7f,
                                   0xff,       0x100,      0x7fff,     0xffff,     1u << 31, 0xffffffff,
                                   1ULL << 32, 1ULL << 61, 1ULL << 62, 1ULL << 63, ~0ULL,    ~0ULL - 7};
  const uint64_t number = kNumbers[below(random, std::size(kNumbers))] + below(random, 3) - 1;
  const size_t width = std::min<size_t>(size_t{1} << below(random, 4), input.size());
  std::memcpy(input.data() + below(random, input.size() - width + 1), &number, width);
}

void change_once(std::string& input, const FuzzCase& fuzz_case, uint64_t& random) {
  if (input.empty()) input = "0";
  const size_t at = below(random, input.size());
  const size_t length = 1 + below(random, std::min<size_t>(input.size() - at, 64));
  switch (below(random, 10)) {
    case 0:
      input[at] = static_cast<char>(input[at] ^ (1 << below(random, 8)));
      break;
    case 1:
      input[at] = static_cast<char>(next(random));
      break;
    case 2:
    case 3:
      overwrite_number(input, random);
      break;
    case 4:
      input.erase(at, length);
      break;
    case 5:
      input.insert(at, input.substr(at, length));
      break;
    case 6:
      input.resize(at);
      break;
    case 7: {
      const std::string& other = fuzz_case.seeds[below(random, fuzz_case.seeds.size())];
      const size_t from = below(random, other.size());
      input.replace(at, length, other.substr(from, 1 + below(random, 64)));
      break;
    }
    case 8:
      if (!fuzz_case.words.empty()) input.insert(at, fuzz_case.words[below(random, fuzz_case.words.size())]);
      break;
    default:
      for (size_t i = at; i < std::min(at + length, input.size()); ++i) input[i] = static_cast<char>(next(random));
  }
}

double processor_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

/// Whether the input was taken; a failure of the test if it threw or took too long.
bool run_one(const std::string& input, const std::function<bool(const std::string&)>& accepts) {
  current_input = &input;
  const double start = processor_seconds();
  bool accepted = false;
  try {
    accepted = accepts(input);
  } catch (const std::exception& error) {
    keep_current_input();
    ADD_FAILURE() << "an exception crossed a room: " << error.what();
  }
  if (processor_seconds() - start > kProcessorSeconds) {
    keep_current_input();
    ADD_FAILURE() << "an input of " << input.size() << " bytes took more than " << kProcessorSeconds << " s";
  }
  current_input = nullptr;
  return accepted;
}

}  // namespace

std::string mutate(const std::string& input, const FuzzCase& fuzz_case, uint64_t& random) {
  std::string changed = input;
  for (size_t changes = 1 + below(random, 1 + below(random, 8)); changes > 0; --changes) {
    change_once(changed, fuzz_case, random);
  }
  if (changed.size() > kLongest) changed.resize(kLongest);
  return changed;
}

void fuzz(const FuzzCase& fuzz_case, const std::function<bool(const std::string& input)>& accepts) {
  const std::string path = ::testing::TempDir() + "fuzz_" + fuzz_case.name + ".input";
  std::strncpy(current_path.data(), path.c_str(), current_path.size() - 1);
  watch_for_the_end();
  if (const char* file = std::getenv("VERNIER_FUZZ_INPUT"); file != nullptr) {
    std::ifstream stream(file, std::ios::binary);
    run_one({std::istreambuf_iterator<char>(stream), {}}, accepts);
    return;
  }
  const char* seconds = std::getenv("VERNIER_FUZZ_SECONDS");
  uint64_t random = seconds == nullptr ? 20250101 : static_cast<uint64_t>(std::time(nullptr));
  if (seconds != nullptr) std::printf("random seed %llu\n", static_cast<unsigned long long>(random));
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds == nullptr ? 0 : std::atoi(seconds));

  std::vector<std::string> pool = fuzz_case.seeds;
  for (const std::string& seed : fuzz_case.seeds) {
    ASSERT_TRUE(run_one(seed, accepts)) << "a seed must be a right input";
  }
  int64_t inputs = 0;
  int64_t taken = 0;
  while (!::testing::Test::HasFailure() &&
         (seconds == nullptr ? inputs < kInputs : std::chrono::steady_clock::now() < end)) {
    const std::string input = mutate(pool[below(random, pool.size())], fuzz_case, random);
    ++inputs;
    if (!run_one(input, accepts)) continue;
    ++taken;
    if (pool.size() < kPool) {
      pool.push_back(input);
    } else {
      pool[fuzz_case.seeds.size() + below(random, kPool - fuzz_case.seeds.size())] = input;
    }
  }
  std::printf("%s: %lld inputs, %lld taken\n", fuzz_case.name.c_str(), static_cast<long long>(inputs),
              static_cast<long long>(taken));
}

}  // namespace vernier::testing
