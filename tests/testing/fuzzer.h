#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace vernier::testing {

/// What a fuzz test starts from.
struct FuzzCase {
  std::string name;                ///< of the file that keeps an input which ended the program
  std::vector<std::string> seeds;  ///< right inputs, changed at random
  std::vector<std::string> words;  ///< put in now and then: keywords, keys, long runs
};

/// Feeds inputs made from the seeds to `accepts`, which returns whether it took one; those it took are changed further.
/// A run of the suites takes a fixed number of inputs from a fixed random seed; with VERNIER_FUZZ_SECONDS it goes on
/// for that long from a seed of its own, which it prints. An input fails the test if it ends the process, throws, or
/// takes more than 10 s of processor time; it is kept in the temporary folder and named, and VERNIER_FUZZ_INPUT=FILE
/// runs it alone. One at a time.
void fuzz(const FuzzCase& fuzz_case, const std::function<bool(const std::string& input)>& accepts);

/// Random changes of one input; public for its own test.
std::string mutate(const std::string& input, const FuzzCase& fuzz_case, uint64_t& random);

}  // namespace vernier::testing
