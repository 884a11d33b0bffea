#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"
#include "tune/tactic.h"

namespace vernier {

inline constexpr size_t kMostRecordBytes = 64 * 1024;
inline constexpr int64_t kRecordFormat = 1;

/// The bytes of a tactic's record: JSON in one line, the same for equal tactics. Their content hash is its address.
std::string write_tactic(const Tactic& tactic);

/// The same, with the worst of the others left out, where all would be too large for a record: they are the least of a
/// loss. It may be too large all the same.
std::string write_bounded_tactic(Tactic& tactic);

/// Refuses what is no record, naming the field: kCorrupt. A later format is kUnsupported: kept for its own version.
Result<Tactic> read_tactic(std::string_view bytes);

}  // namespace vernier
