#pragma once

#include "server/prompt.h"
#include "text/output_reader.h"
#include "vernier/vernier.h"

namespace vernier {

/// A request of the C API, checked and ready to be submitted.
struct LibraryWork {
  Request request;
  OutputReaderOptions reader;
};

/// Nothing set: what vernier_request_options_init gives.
vernier_request_options default_request_options();

/// The prompt of the request, rendered and tokenised.
Result<Prompt> library_prompt(const ServedModel& model, const vernier_request_options& options);

/// Refuses what is out of range, by the option's name. Compiles the constraint, which may take seconds.
Result<LibraryWork> library_work(const ServedModel& model, const vernier_request_options& options);

}  // namespace vernier
