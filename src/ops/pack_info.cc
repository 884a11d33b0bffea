#include "ops/pack_info.h"

#include <set>
#include <utility>

namespace vernier {

Status check_segments(std::span<const QTensor> segments) {
  if (segments.empty()) return invalid_argument("a matrix without segments; expected at least one");
  for (const QTensor& segment : segments) {
    if (segment.cols() != segments[0].cols()) {
      return invalid_argument("{} has {} columns and {} has {}; parts of one fused matrix must agree",
                              segments[0].origin(), segments[0].cols(), segment.origin(), segment.cols());
    }
  }
  return {};
}

PackedInfo describe_segments(std::span<const QTensor> segments, std::string layout) {
  PackedInfo info;
  info.layout = std::move(layout);
  std::set<std::string_view> codecs;
  for (const QTensor& segment : segments) {
    if (codecs.insert(segment.codec().name).second) {
      info.codec += fmt::format("{}{}", info.codec.empty() ? "" : "+", segment.codec().name);
    }
    if (!segment.codec().is_dense()) {
      info.scale_origin += fmt::format("{}{}", info.scale_origin.empty() ? "" : "; ", segment.origin());
    }
    info.bytes += static_cast<int64_t>(segment.stored_bytes());
  }
  return info;
}

Status check_layout(const KvLayout& layout) {
  if (layout.block_tokens < 1) return invalid_argument("a block of {} tokens, expected 1 or more", layout.block_tokens);
  for (const CacheSpec& spec : layout.layers) {
    if (spec.cache_class < 0 || spec.cache_class >= static_cast<int>(layout.class_blocks.size())) {
      return invalid_argument("layer {} is of cache class {}, and there are {}", spec.layer, spec.cache_class,
                              layout.class_blocks.size());
    }
    if (layout.class_blocks[static_cast<size_t>(spec.cache_class)] < 1 || spec.kv_heads < 1 || spec.head_dim < 1) {
      return invalid_argument("layer {} has a cache of {} blocks, {} heads of {}; expected 1 or more of each",
                              spec.layer, layout.class_blocks[static_cast<size_t>(spec.cache_class)], spec.kv_heads,
                              spec.head_dim);
    }
    if (!is_cache_type(spec.stored)) {
      return unsupported("a cache of {} is not built; expected f32, f16, bf16, fp8_e4m3 or fp8_e5m2",
                         codec(spec.stored).name);
    }
    for (const auto* scale : {&spec.k_scale, &spec.v_scale}) {
      if (!*scale || !(*scale)->per_head() || static_cast<int>((*scale)->values().size()) == spec.kv_heads) continue;
      return invalid_argument("layer {} has {} KV heads and {} cache scales ({}); expected one, or one for each head",
                              spec.layer, spec.kv_heads, (*scale)->values().size(), (*scale)->origin());
    }
  }
  return {};
}

int64_t layout_bytes(const KvLayout& layout) {
  int64_t bytes = 0;
  for (const CacheSpec& spec : layout.layers) {
    int64_t tokens = int64_t{layout.class_blocks[static_cast<size_t>(spec.cache_class)]} * layout.block_tokens;
    bytes += tokens * spec.bytes_per_token();
  }
  return bytes;
}

Choice only_choice(Problem problem, std::string kernel, std::string layout) {
  Candidate candidate{std::move(kernel), Reason{ReasonCode::kChosen, "the only one of this backend"}};
  return Choice{std::move(problem), {std::move(candidate)}, std::move(layout)};
}

Problem linear_problem(const PackedMatrix& matrix, int64_t batch_rows) {
  return Problem{"linear",
                 {{"codec", matrix.info().codec},
                  {"rows", std::to_string(matrix.rows())},
                  {"cols", std::to_string(matrix.cols())},
                  {"batch", std::to_string(batch_rows)}}};
}

Problem attend_problem(const AttnSpec& spec, const CacheSpec& cache, int64_t batch_rows) {
  Problem problem{"attend",
                  {{"cache", spec.causal ? std::string(cache_type_name(cache.stored)) : "none"},
                   {"heads", std::to_string(spec.heads)},
                   {"kv_heads", std::to_string(spec.kv_heads)},
                   {"head_dim", std::to_string(spec.head_dim)},
                   {"window", spec.window ? std::to_string(*spec.window) : "none"}}};
  if (spec.sinks) problem.facts.push_back({"sinks", std::to_string(spec.heads)});
  if (spec.soft_cap > 0) problem.facts.push_back({"soft_cap", fmt::format("{:g}", spec.soft_cap)});
  if (spec.causal && cache.fresh != FreshRows::kStored) {
    problem.facts.push_back({"attention", std::string(name(cache.fresh))});
  }
  problem.facts.push_back({"batch", std::to_string(batch_rows)});
  return problem;
}

}  // namespace vernier
