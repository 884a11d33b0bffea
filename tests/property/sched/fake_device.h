#pragma once

#include <gtest/gtest.h>

#include <map>
#include <span>
#include <vector>

#include "base/random.h"
#include "sched/planner.h"

namespace vernier::testing {

inline uint64_t mix(uint64_t a, uint64_t b) {
  return fmix64(a * 0x9e3779b97f4a7c15ULL + b + 1);
}

constexpr uint64_t kPoison = 0xdeaddeaddeaddeadULL;

/// A model of one layer for each cache class. A layer writes, at each position, a number made of the unit and of all
/// that the layer below read there, and reads what its window sees. What it samples is a hash of everything: a wrong
/// block, a stale slot or an unwritten one changes it.
struct FakeModel {
  std::vector<std::optional<int32_t>> windows;
  int32_t vocabulary = 5;

  static uint64_t write(uint64_t below, const PrefixUnit& unit, const PrefixRoot& root, int32_t position) {
    return mix(mix(mix(below, unit.low ^ unit.high), static_cast<uint64_t>(position)),
               root.tenant * 3 + root.adapter * 5 + root.weight_version * 7);
  }
  int32_t first_seen(size_t layer, int32_t position) const {
    return windows[layer] ? std::max(0, position - *windows[layer] + 1) : 0;
  }
  PrefixUnit token(uint64_t digest) const {
    return PrefixUnit::token(static_cast<int32_t>(digest % static_cast<uint64_t>(vocabulary)));
  }

  /// The digests of all positions of a sequence that runs alone with plain arrays, and its units to `tokens`.
  struct Answer {
    std::vector<PrefixUnit> units;
    std::vector<uint64_t> digests;
  };
  Answer run_alone(std::vector<PrefixUnit> prompt, const PrefixRoot& root, int32_t tokens) const {
    Answer answer{std::move(prompt), {}};
    std::vector<std::vector<uint64_t>> layers(windows.size());
    for (int32_t p = 0; p < tokens; ++p) {
      uint64_t digest = 0;
      for (size_t layer = 0; layer < windows.size(); ++layer) {
        layers[layer].push_back(write(digest, answer.units[static_cast<size_t>(p)], root, p));
        for (int32_t k = first_seen(layer, p); k <= p; ++k) digest = mix(digest, layers[layer][static_cast<size_t>(k)]);
      }
      answer.digests.push_back(digest);
      if (p + 1 == static_cast<int32_t>(answer.units.size()) && p + 1 < tokens) answer.units.push_back(token(digest));
    }
    return answer;
  }
};

/// A step as the engine would hand it to a backend: everything copied at launch.
struct FakeStep {
  StepPlan plan;
  struct Rows {
    std::vector<PrefixUnit> units;
    PrefixRoot root;
    std::vector<std::vector<int32_t>> blocks;  // [classes]
    std::vector<int32_t> first_position;       // [classes]
  };
  std::vector<Rows> rows;
};

/// The slots of all classes, and a run of one step over them.
class FakeDevice {
 public:
  FakeDevice(const SchedConfig& config, FakeModel model)
      : model_(std::move(model)), block_tokens_(config.block_tokens) {
    for (const SchedClass& c : config.classes) {
      slots_.emplace_back(static_cast<size_t>(c.blocks * config.block_tokens), kPoison);
    }
  }

  const FakeModel& model() const { return model_; }

  static FakeStep capture(const SchedState& state, const StepPlan& plan) {
    FakeStep step{plan, {}};
    for (const PlannedRows& rows : plan.rows) {
      const SequenceState& s = state.sequence(rows.sequence);
      auto first = s.units.begin() + rows.first_position;
      FakeStep::Rows copy{{first, first + rows.rows}, s.root, {}, {}};
      for (const BlockTable& table : s.tables) {
        copy.blocks.emplace_back(table.blocks().begin(), table.blocks().end());
        copy.first_position.push_back(table.first_position());
      }
      step.rows.push_back(std::move(copy));
    }
    return step;
  }

  /// The digest of the last row of each entry of the plan. `broken`: the step fails midway and leaves rubbish behind.
  std::vector<uint64_t> run(const FakeStep& step, bool broken = false) {
    std::vector<std::vector<uint64_t>> digests;
    for (const PlannedRows& rows : step.plan.rows) digests.emplace_back(static_cast<size_t>(rows.rows), 0);
    for (size_t layer = 0; layer < slots_.size(); ++layer) {
      for (size_t i = 0; i < step.rows.size(); ++i) {
        for (int32_t r = 0; r < step.plan.rows[i].rows; ++r) {
          const int32_t p = step.plan.rows[i].first_position + r;
          const auto at = static_cast<size_t>(r);
          slot(step.rows[i], layer, p) =
              broken ? kPoison : FakeModel::write(digests[i][at], step.rows[i].units[at], step.rows[i].root, p);
        }
      }
      if (broken) continue;
      for (size_t i = 0; i < step.rows.size(); ++i) {
        for (int32_t r = 0; r < step.plan.rows[i].rows; ++r) {
          const int32_t p = step.plan.rows[i].first_position + r;
          for (int32_t k = model_.first_seen(layer, p); k <= p; ++k) {
            const uint64_t seen = slot(step.rows[i], layer, k);
            EXPECT_NE(seen, kPoison) << "a row at " << p << " reads position " << k << ", which nobody wrote";
            digests[i][static_cast<size_t>(r)] = mix(digests[i][static_cast<size_t>(r)], seen);
          }
        }
      }
    }
    std::vector<uint64_t> last;
    for (const auto& each : digests) last.push_back(each.back());
    return last;
  }

  /// What nobody holds or names may be overwritten by anything.
  void poison_free(const SchedState& state) {
    for (size_t c = 0; c < slots_.size(); ++c) {
      const BlockPool& pool = state.pool(static_cast<int32_t>(c));
      for (int32_t b = 0; b < pool.blocks(); ++b) {
        if (pool.holders(b) > 0 || pool.in_tree(b)) continue;
        std::fill_n(slots_[c].begin() + std::ptrdiff_t{b} * block_tokens_, block_tokens_, kPoison);
      }
    }
  }

 private:
  uint64_t& slot(const FakeStep::Rows& rows, size_t layer, int32_t position) {
    const int32_t at = (position - rows.first_position[layer]) / block_tokens_;
    EXPECT_TRUE(position >= rows.first_position[layer] && at < static_cast<int32_t>(rows.blocks[layer].size()))
        << "position " << position << " of class " << layer << " is in no block";
    return slots_[layer][static_cast<size_t>(rows.blocks[layer].at(static_cast<size_t>(at)) * block_tokens_ +
                                             position % block_tokens_)];
  }

  FakeModel model_;
  int32_t block_tokens_;
  std::vector<std::vector<uint64_t>> slots_;  // [classes][blocks * block_tokens]
};

}  // namespace vernier::testing
