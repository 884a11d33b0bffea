#pragma once

#include <span>

#include "text/jinja_filters.h"

/// The filters by topic; find_filter looks through all of them.
namespace vernier::jinja {

std::span<const Filter> text_filters();
std::span<const Filter> markup_filters();
std::span<const Filter> number_filters();
std::span<const Filter> sequence_filters();
std::span<const Filter> selection_filters();

}  // namespace vernier::jinja
