#pragma once

#include <string>
#include <vector>

#include "app/tune_run.h"

namespace vernier {

/// `vernier tune MODEL --tp N`: every rank loads its share and they tune it together; rank 0 tells what was found.
Status run_tune_ranks(const TuneRunFlags& flags, const RankFlags::Plan& plan, const std::vector<std::string>& forms);

}  // namespace vernier
