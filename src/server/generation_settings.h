#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "sampling/sampling_params.h"
#include "server/request_fields.h"
#include "server/served_model.h"

namespace vernier {

/// What a request says of drawing tokens and of where an answer ends, whichever route it came by.
struct GenerationSettings {
  SamplingParams sampling;
  std::optional<int32_t> max_tokens;  ///< none: the rest of the context, up to the next
  int32_t default_max_tokens = std::numeric_limits<int32_t>::max();
  std::string max_tokens_field = "max_tokens";
  int32_t min_tokens = 0;
  int32_t choices = 1;
  std::vector<std::string> stops;
  bool include_stop = false;
  std::vector<int32_t> stop_tokens;
  bool ignore_end_tokens = false;
  bool skip_special = true;
  int32_t top_logprobs = -1;     ///< -1: none are wanted
  int32_t prompt_logprobs = -1;  ///< the same
  bool token_ids = false;        ///< the answer tells its tokens' ids
  int32_t priority = 0;
  uint64_t cache_salt = 0;
  std::string request_id;              ///< the caller's own; may be empty
  std::optional<int64_t> deadline_ns;  ///< monotonic, of the whole request
};

/// Reads the fields that all generating routes share. Without a seed the model's own holds, or else a new one is drawn.
Result<GenerationSettings> read_generation(const Fields& fields, const ServedModel& model);

/// Token ids of an array, each below `vocabulary`; `place` is its field.
Result<std::vector<int32_t>> read_token_ids(const Json& array, const std::string& place, int32_t vocabulary);

/// Refused unless it is one of the model's names.
Status check_model_name(const Fields& fields, const ServedModel& model, bool required);

/// At most 16 pairs of short texts.
Status check_metadata(const Fields& fields);

}  // namespace vernier
