#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "tune/tactic_folder.h"

namespace vernier {

/// Records of a store in one file: a line that says so, and a line for each, its id and its bytes.
std::string write_archive(std::span<const TacticFolder::Entry> entries);
/// Whether a file begins as one.
bool is_archive(std::string_view bytes);
/// Refuses what is no archive, and a line that is not what its id is the hash of, by number.
Result<TacticFolder::Contents> read_archive(std::string_view bytes);

}  // namespace vernier
