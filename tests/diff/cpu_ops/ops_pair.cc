#include "ops_pair.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace vernier::testing {

StepMaker::StepMaker(std::vector<CacheClass> classes, int32_t block_tokens, int sequences, uint32_t seed)
    : classes_(std::move(classes)), block_tokens_(block_tokens), random_(seed) {
  positions_.assign(static_cast<size_t>(sequences), 0);
  for (const CacheClass& cache : classes_) {
    held_.emplace_back(static_cast<size_t>(sequences));
    std::vector<int32_t> blocks(static_cast<size_t>(cache.pool_blocks));
    std::iota(blocks.begin(), blocks.end(), 0);
    std::shuffle(blocks.begin(), blocks.end(), random_);
    free_.push_back(std::move(blocks));
  }
}

std::vector<int32_t> StepMaker::class_blocks() const {
  std::vector<int32_t> blocks;
  for (const CacheClass& cache : classes_) blocks.push_back(cache.pool_blocks);
  return blocks;
}

const StepView& StepMaker::next(std::span<const int> rows, int vocab, bool sample_all) {
  tokens_.clear();
  row_positions_.clear();
  sampled_.clear();
  sequences_.clear();
  blocks_.assign(classes_.size(), {});
  begin_.assign(classes_.size(), {0});
  first_position_.assign(classes_.size(), {});
  for (size_t s = 0; s < rows.size(); ++s) {
    if (rows[s] == 0) continue;
    int32_t first = positions_[s], end = first + rows[s];
    sequences_.push_back({static_cast<int32_t>(tokens_.size()), rows[s], first});
    for (int32_t position = first; position < end; ++position) {
      if (sample_all || position == end - 1) sampled_.push_back(static_cast<int32_t>(tokens_.size()));
      tokens_.push_back(std::uniform_int_distribution<int32_t>(0, vocab - 1)(random_));
      row_positions_.push_back(position);
    }
    for (size_t c = 0; c < classes_.size(); ++c) {
      Held& held = held_[c][s];
      int32_t oldest = classes_[c].window ? std::max(0, first - *classes_[c].window + 1) : 0;
      for (; held.first_position + block_tokens_ <= oldest; held.first_position += block_tokens_) {
        free_[c].insert(free_[c].begin(), held.blocks.front());
        held.blocks.erase(held.blocks.begin());
      }
      while (held.first_position + static_cast<int32_t>(held.blocks.size()) * block_tokens_ < end) {
        EXPECT_FALSE(free_[c].empty()) << "the test's pool is too small";
        held.blocks.push_back(free_[c].back());
        free_[c].pop_back();
      }
      blocks_[c].insert(blocks_[c].end(), held.blocks.begin(), held.blocks.end());
      begin_[c].push_back(static_cast<int32_t>(blocks_[c].size()));
      first_position_[c].push_back(held.first_position);
    }
    positions_[s] = end;
  }
  tables_.clear();
  for (size_t c = 0; c < classes_.size(); ++c) {
    tables_.push_back({block_tokens_, blocks_[c], begin_[c], first_position_[c]});
  }
  view_ = StepView{tokens_, row_positions_, sequences_, tables_, sampled_};
  return view_;
}

OpsPair::OpsPair(Numerics numerics, int threads, uint32_t seed) : random_(seed) {
  CpuOptions options;
  options.threads = threads;
  options.isa = requested_isa();
  options.numerics = numerics;
  cpu_ = CpuBackend::make(options).value();
}

std::vector<float> OpsPair::numbers(int64_t count, float width) {
  std::normal_distribution<float> normal(0, width);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random_);
  return values;
}

OpsPair::Both<std::shared_ptr<const PackedVector>> OpsPair::vector(std::span<const float> values) {
  return {cpu_->upload(values).value(), ref_.upload(values).value()};
}

OpsPair::Both<Norm> OpsPair::norm(int64_t size) {
  std::vector<float> weights = numbers(size, 0.3f);
  for (float& weight : weights) weight += 1;
  auto both = vector(weights);
  return {Norm{"norm", both.cpu, 1e-5f}, Norm{"norm", both.ref, 1e-5f}};
}

void OpsPair::make_ops(const KvLayout& layout, int64_t max_rows) {
  cpu_ops_.reset();
  ref_ops_.reset();
  cpu_kv_ = cpu_->make_kv(layout).value();
  ref_kv_ = ref_.make_kv(layout).value();
  cpu_ops_ = cpu_->make_ops(*cpu_kv_, max_rows).value();
  ref_ops_ = ref_.make_ops(*ref_kv_, max_rows).value();
}

double relative_error(std::span<const float> got, std::span<const float> expected) {
  if (got.size() != expected.size()) return std::numeric_limits<double>::infinity();
  double largest = 0, size = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    double error = std::abs(double{got[i]} - expected[i]);
    if (std::isnan(error)) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, error);
    size = std::max(size, std::abs(double{expected[i]}));
  }
  return largest / size;
}

}  // namespace vernier::testing
