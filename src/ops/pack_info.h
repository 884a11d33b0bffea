#pragma once

#include <span>

#include "ops/backend.h"

namespace vernier {

/// Checks what every backend's `pack` demands: at least one segment, equal columns.
Status check_segments(std::span<const QTensor> segments);
/// Codec names, origins and stored bytes of a fused matrix, for a layout that keeps codes as they are.
PackedInfo describe_segments(std::span<const QTensor> segments, std::string layout);
/// Checks what every backend's `make_kv` demands: classes that exist, positive extents, a stored type that is built.
Status check_layout(const KvLayout& layout);
/// Bytes of all layers of a checked layout.
int64_t layout_bytes(const KvLayout& layout);
/// For backends with one candidate.
Choice only_choice(Problem problem, std::string kernel, std::string layout);
/// The facts that select a kernel.
Problem linear_problem(const PackedMatrix& matrix, int64_t batch_rows);
Problem attend_problem(const AttnSpec& spec, const CacheSpec& cache, int64_t batch_rows);

}  // namespace vernier
