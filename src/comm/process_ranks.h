#pragma once

#include <filesystem>
#include <memory>

#include "base/result.h"
#include "comm/rank_transport.h"

namespace vernier {

/// The end of one rank among processes of one machine, which meet in a folder of theirs alone and are then joined by
/// Unix sockets, each with each. Makes the folder where it is not there; leaves no socket in it. Fails within the
/// time-out: names the ranks that did not come, one that is there twice, one that was started for another number.
Result<std::unique_ptr<RankTransport>> meet_in_folder(const std::filesystem::path& folder, int rank, int size,
                                                      int64_t timeout_ns);

}  // namespace vernier
