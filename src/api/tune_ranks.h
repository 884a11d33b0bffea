#pragma once

#include <span>

#include "api/tune_model.h"
#include "comm/communicator.h"

namespace vernier {

/// `tune_model` on several ranks, each with its own share of a model, so that all choose alike. They first tell each
/// other what they know: what those that have a problem know alike is kept. The rest is measured problem after problem
/// in one order, by all ranks that have it at the same time; they reduce what each found to one tactic, and each
/// commits the same record. At the end they compare what each would choose. The report has the problems of all ranks,
/// and is the same on each.
///
/// Fails, on every rank, where ranks differ in device, libraries or request; where one fails or does not answer in
/// time; where time was up before a problem was measured that ranks know different choices of.
Result<TuneReport> tune_ranks(Communicator& ranks, Backend& backend, std::span<const DecoderPart> parts,
                              TacticStore& store, const TuneRequest& request);

}  // namespace vernier
