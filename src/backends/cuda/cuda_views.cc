#include "backends/cuda/cuda_views.h"

#include "base/check.h"

namespace vernier {
namespace {

const unsigned char* bytes_at(const std::byte* at) {
  return reinterpret_cast<const unsigned char*>(at);
}

}  // namespace

cuda::Codes codes_kind(const Codec& codec) {
  switch (codec.id) {
    case CodecId::kQ4_0:
      return cuda::Codes::kQ4_0;
    case CodecId::kQ4_1:
      return cuda::Codes::kQ4_1;
    case CodecId::kQ5_0:
      return cuda::Codes::kQ5_0;
    case CodecId::kQ5_1:
      return cuda::Codes::kQ5_1;
    case CodecId::kQ8_0:
      return cuda::Codes::kQ8_0;
    case CodecId::kQ2_K:
      return cuda::Codes::kQ2_K;
    case CodecId::kQ3_K:
      return cuda::Codes::kQ3_K;
    case CodecId::kQ4_K:
      return cuda::Codes::kQ4_K;
    case CodecId::kQ5_K:
      return cuda::Codes::kQ5_K;
    case CodecId::kQ6_K:
      return cuda::Codes::kQ6_K;
    case CodecId::kGgufMxfp4:
      return cuda::Codes::kGgufMxfp4;
    default:
      break;
  }
  switch (codec.element) {
    case Element::kF32:
      return cuda::Codes::kF32;
    case Element::kF16:
      return cuda::Codes::kF16;
    case Element::kBF16:
      return cuda::Codes::kBF16;
    case Element::kE4M3:
      return cuda::Codes::kE4M3;
    case Element::kE5M2:
      return cuda::Codes::kE5M2;
    case Element::kE2M1:
      return cuda::Codes::kE2M1;
    case Element::kInt:
      break;
  }
  CHECK(false, "no kernel reads {}", codec.name);
  return cuda::Codes::kF32;
}

cuda::ScaleKind scale_kind(ScaleType type) {
  switch (type) {
    case ScaleType::kF32:
      return cuda::ScaleKind::kF32;
    case ScaleType::kE8M0:
      return cuda::ScaleKind::kE8M0;
    case ScaleType::kE4M3:
      return cuda::ScaleKind::kE4M3;
    case ScaleType::kNone:
      break;
  }
  return cuda::ScaleKind::kNone;
}

std::vector<CudaRows> views_of(const QTensor::View& tensor, int64_t first_output, const std::byte* codes,
                               const std::byte* inner_scales) {
  const Codec& codec = tensor.codec;
  cuda::QView view;
  view.codes = bytes_at(codes);
  view.inner_scales = bytes_at(inner_scales);
  view.row_bytes = codec.row_bytes(tensor.cols);
  view.rows = tensor.rows;
  view.cols = tensor.cols;
  view.kind = codes_kind(codec);
  view.inner = scale_kind(codec.inner);
  view.group_rows = codec.group_rows == 0 ? tensor.rows : codec.group_rows;
  view.group_cols = codec.group_cols == 0 ? tensor.cols : codec.group_cols;
  if (view.inner != cuda::ScaleKind::kNone) view.groups_across = codec.groups_across(tensor.cols);
  if (tensor.outer_scales.empty()) return {{first_output, view}};
  std::vector<CudaRows> parts;
  for (size_t i = 0; i < tensor.outer_scales.size(); ++i) {
    view.rows = tensor.segment_rows[i];
    view.outer_scale = tensor.outer_scales[i];
    parts.push_back({first_output, view});
    first_output += view.rows;
    view.first_row += view.rows;
  }
  return parts;
}

cuda::KvNumbers kv_numbers(CodecId stored) {
  switch (stored) {
    case CodecId::kF16:
      return cuda::KvNumbers::kF16;
    case CodecId::kBF16:
      return cuda::KvNumbers::kBF16;
    case CodecId::kE4M3Tensor:
      return cuda::KvNumbers::kE4M3;
    case CodecId::kE5M2Tensor:
      return cuda::KvNumbers::kE5M2;
    default:
      CHECK(stored == CodecId::kF32, "a cache stores f32, f16, bf16, e4m3 or e5m2");
      return cuda::KvNumbers::kF32;
  }
}

}  // namespace vernier
