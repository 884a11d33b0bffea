#include "tensor/quantise.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <vector>

#include "base/thread_pool.h"
#include "tensor/scalar.h"
#include "tensor/scale_level.h"
#include "tensor/scale_search.h"

namespace vernier {
namespace {

constexpr int64_t kSlabElements = 1 << 19;

/// Some whole rows of a matrix, decoded.
struct Slab {
  int64_t row;
  int64_t rows;
  int64_t cols;
  std::vector<float> values;  // [rows, cols]

  std::span<const float> part(int64_t at, int64_t begin, int64_t end) const {
    return std::span(values).subspan(static_cast<size_t>(at * cols + begin), static_cast<size_t>(end - begin));
  }
};

/// Rows of a slab: about kSlabElements, a whole number of groups.
int64_t slab_rows(int64_t cols, int64_t group_rows) {
  const int64_t unit = std::max<int64_t>(group_rows, 1);
  return std::max<int64_t>(kSlabElements / cols / unit, 1) * unit;
}

/// Calls fn(slab) for all rows, in any order, on the pool's threads.
template <class Fn>
void for_each_slab(const QTensor& source, int64_t group_rows, ThreadPool& pool, const Fn& fn) {
  const int64_t step = slab_rows(source.cols(), group_rows);
  const int64_t count = (source.rows() + step - 1) / step;
  pool.parallel_for(static_cast<int>(count), [&](int chunk) {
    Slab slab{chunk * step, std::min(step, source.rows() - chunk * step), source.cols(), {}};
    slab.values.resize(static_cast<size_t>(slab.rows * slab.cols));
    for (int64_t i = 0; i < slab.rows; ++i) {
      source.decode_row(
          slab.row + i,
          std::span(slab.values).subspan(static_cast<size_t>(i * slab.cols), static_cast<size_t>(slab.cols)));
    }
    fn(slab);
  });
}

void pack_pairs(std::span<const uint8_t> codes, std::byte* out) {
  for (size_t i = 0; i < codes.size(); i += 2) out[i / 2] = static_cast<std::byte>(codes[i] | codes[i + 1] << 4);
}

/// What is being made: codes and scales of the whole matrix, filled slab by slab.
class Making {
 public:
  Making(const QTensor& source, const Codec& target, int64_t code_bytes)
      : source_(source), target_(target), codes_(static_cast<size_t>(code_bytes)) {
    across_ = target.groups_across(source.cols());
    scales_.resize(static_cast<size_t>(target.groups_down(source.rows()) * across_ * scale_bytes(target.inner)));
  }

  Status fill(float largest, ThreadPool& pool) {
    if (target_.outer_scale) outer_ = nvfp4_global_scale(largest);
    if (target_.group_rows == 0) tensor_scale_ = whole_scale(largest, pool);
    Status status;
    std::mutex mutex;
    for_each_slab(source_, target_.group_rows, pool, [&](const Slab& slab) {
      Status made = encode_slab(slab);
      std::lock_guard<std::mutex> lock(mutex);
      if (!made.ok()) status = std::move(made);
    });
    return status;
  }

  Result<QTensor> finish() && {
    QTensorParts parts{target_, source_.rows(), source_.cols(), Bytes(std::move(codes_)), {}, {}, {}, source_.origin()};
    if (target_.inner != ScaleType::kNone) parts.inner_scales = Bytes(std::move(scales_));
    if (target_.outer_scale) parts.outer_scales = {outer_};
    return QTensor::make(std::move(parts));
  }

 private:
  Status encode_slab(const Slab& slab) {
    std::byte* codes = codes_.data() + slab.row * target_.row_bytes(slab.cols);
    if (target_.element == Element::kE2M1 && target_.packing == Packing::kNibblesLow) {
      encode_groups(slab, codes);
    } else if (target_.id == CodecId::kMxfp8) {
      encode_groups(slab, codes);
    } else if (target_.inner == ScaleType::kF32) {
      encode_bytes(slab, codes);
    } else {
      TRY_BIND(QTensor encoded, encode(target_, slab.rows, slab.cols, slab.values));
      std::memcpy(codes, encoded.view().codes.data(), encoded.view().codes.size());
    }
    return {};
  }

  /// MXFP4, NVFP4, MXFP8: groups within a row.
  void encode_groups(const Slab& slab, std::byte* out) {
    std::array<uint8_t, 32> group;
    const int64_t width = target_.group_cols;
    std::span<uint8_t> codes(group.data(), static_cast<size_t>(width));
    std::byte* scales = scales_.data() + slab.row * across_;
    for (int64_t i = 0; i < slab.rows * across_; ++i) {
      std::span<const float> values = std::span(slab.values).subspan(static_cast<size_t>(i * width), codes.size());
      if (target_.id == CodecId::kMxfp8) {
        scales[i] = std::byte{search_mxfp8(values, codes)};
        std::memcpy(out + i * width, codes.data(), codes.size());
        continue;
      }
      scales[i] =
          std::byte{target_.id == CodecId::kMxfp4 ? search_mxfp4(values, codes) : search_nvfp4(values, outer_, codes)};
      pack_pairs(codes, out + i * width / 2);
    }
  }

  /// E4M3 with f32 scales for blocks, rows or the whole.
  void encode_bytes(const Slab& slab, std::byte* out) {
    const int64_t height = target_.group_rows == 0 ? slab.rows : target_.group_rows;
    const int64_t width = target_.group_cols == 0 ? slab.cols : target_.group_cols;
    for (int64_t top = 0; top < slab.rows; top += height) {
      const int64_t bottom = std::min(top + height, slab.rows);
      for (int64_t begin = 0; begin < slab.cols; begin += width) {
        const int64_t end = std::min(begin + width, slab.cols);
        const float scale = target_.group_rows == 0 ? tensor_scale_ : block_scale(slab, top, bottom, begin, end);
        const int64_t index = target_.group_rows == 0 ? 0 : (slab.row + top) / height * across_ + begin / width;
        // The whole matrix's scale is the same from every slab; one thread writes it.
        if (target_.group_rows != 0 || slab.row == 0) {
          std::memcpy(scales_.data() + static_cast<size_t>(index) * sizeof(float), &scale, sizeof(float));
        }
        for (int64_t row = top; row < bottom; ++row) {
          std::span<const float> values = slab.part(row, begin, end);
          std::byte* to = out + row * slab.cols + begin;
          for (size_t i = 0; i < values.size(); ++i) to[i] = std::byte{f32_to_e4m3(values[i] / scale)};
        }
      }
    }
  }

  static float block_scale(const Slab& slab, int64_t top, int64_t bottom, int64_t begin, int64_t end) {
    float largest = 0;
    for (int64_t row = top; row < bottom; ++row) {
      for (float value : slab.part(row, begin, end)) largest = std::max(largest, std::fabs(value));
    }
    std::array<double, kByteScaleCandidates> noise{};
    for (int candidate = 0; candidate < kByteScaleCandidates; ++candidate) {
      const float scale = byte_scale_candidate(largest, candidate);
      for (int64_t row = top; row < bottom; ++row) {
        noise[static_cast<size_t>(candidate)] += byte_noise(slab.part(row, begin, end), scale);
      }
    }
    return byte_scale_candidate(largest, least_byte_noise(noise));
  }

  /// The one scale of a whole matrix.
  float whole_scale(float largest, ThreadPool& pool) {
    // Sums of slabs are added in order, so that the choice does not depend on the threads.
    const int64_t step = slab_rows(source_.cols(), 1);
    std::vector<std::array<double, kByteScaleCandidates>> sums(static_cast<size_t>((source_.rows() + step - 1) / step));
    for_each_slab(source_, 1, pool, [&](const Slab& slab) {
      for (int i = 0; i < kByteScaleCandidates; ++i) {
        sums[static_cast<size_t>(slab.row / step)][static_cast<size_t>(i)] =
            byte_noise(slab.values, byte_scale_candidate(largest, i));
      }
    });
    std::array<double, kByteScaleCandidates> noise{};
    for (const auto& of_slab : sums) {
      for (size_t i = 0; i < noise.size(); ++i) noise[i] += of_slab[i];
    }
    return byte_scale_candidate(largest, least_byte_noise(noise));
  }

  const QTensor& source_;
  const Codec& target_;
  std::vector<std::byte> codes_;
  std::vector<std::byte> scales_;
  int64_t across_ = 0;
  float outer_ = 1;
  float tensor_scale_ = 1;
};

}  // namespace

Result<float> largest_finite(const QTensor& source, int threads) {
  ThreadPool pool(threads);
  std::mutex mutex;
  float largest = 0;
  int64_t bad = -1;
  float bad_value = 0;
  for_each_slab(source, 1, pool, [&](const Slab& slab) {
    float own = 0;
    for (size_t i = 0; i < slab.values.size(); ++i) {
      const float value = std::fabs(slab.values[i]);
      if (!std::isfinite(value)) {
        const int64_t place = slab.row * slab.cols + static_cast<int64_t>(i);
        std::lock_guard<std::mutex> lock(mutex);
        if (bad < 0 || place < bad) {
          bad = place;
          bad_value = slab.values[i];
        }
        return;
      }
      own = std::max(own, value);
    }
    std::lock_guard<std::mutex> lock(mutex);
    largest = std::max(largest, own);
  });
  if (bad < 0) return largest;
  return invalid_argument("value [{}, {}] is {}, and no scale is right for a group with it", bad / source.cols(),
                          bad % source.cols(), std::isnan(bad_value) ? "NaN" : "infinite");
}

Result<QTensor> quantise(const QTensor& source, const Codec& target, const QuantiseOptions& options) {
  if (source.codec() == target) return source;
  TRY_BIND(int64_t code_bytes, target.code_bytes(source.rows(), source.cols()));
  TRY_BIND(float largest, largest_finite(source, options.threads));
  Making making(source, target, code_bytes);
  ThreadPool pool(options.threads);
  TRY_STATUS(making.fill(std::max(largest, options.largest), pool));
  return std::move(making).finish();
}

QuantLoss measure_loss(const QTensor& source, const QTensor& result, int threads) {
  ThreadPool pool(threads);
  const int64_t width = std::clamp<int64_t>(result.codec().group_cols, 32, 256);
  std::vector<QuantLoss> losses(
      static_cast<size_t>(source.rows() / std::max<int64_t>(slab_rows(source.cols(), 1), 1) + 1));
  for_each_slab(source, 1, pool, [&](const Slab& slab) {
    QuantLoss& loss = losses[static_cast<size_t>(slab.row / slab_rows(slab.cols, 1))];
    std::vector<float> made(static_cast<size_t>(slab.cols));
    for (int64_t row = 0; row < slab.rows; ++row) {
      result.decode_row(slab.row + row, made);
      for (int64_t begin = 0; begin < slab.cols; begin += width) {
        const int64_t end = std::min(begin + width, slab.cols);
        std::span<const float> values = slab.part(row, begin, end);
        double signal = 0, noise = 0;
        for (size_t i = 0; i < values.size(); ++i) {
          const double difference = double{values[i]} - double{made[static_cast<size_t>(begin) + i]};
          signal += double{values[i]} * double{values[i]};
          noise += difference * difference;
        }
        loss.signal += signal;
        loss.noise += noise;
        const double db = QuantLoss::ratio_db(signal, noise);
        if (db >= loss.worst_db) continue;
        loss.worst_db = db;
        loss.worst_row = slab.row + row;
        loss.worst_col = begin;
      }
    }
  });
  QuantLoss all;
  for (const QuantLoss& loss : losses) {
    all.signal += loss.signal;
    all.noise += loss.noise;
    if (loss.worst_db >= all.worst_db) continue;
    all.worst_db = loss.worst_db;
    all.worst_row = loss.worst_row;
    all.worst_col = loss.worst_col;
  }
  return all;
}

}  // namespace vernier
