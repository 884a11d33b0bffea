#include "ops/expert_dispatch.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace vernier {
namespace {

/// The rank that has the expert; nothing where none has.
std::optional<size_t> rank_of(int expert, std::span<const AxisCut> experts) {
  for (size_t rank = 0; rank < experts.size(); ++rank) {
    if (expert >= experts[rank].begin && expert < experts[rank].end) return rank;
  }
  return std::nullopt;
}

Status check_partition(std::span<const AxisCut> experts) {
  int64_t next = 0;
  for (const AxisCut& cut : experts) {
    if (cut.begin != next || cut.end < cut.begin) {
      return invalid_argument("a rank has experts {} to {}, expected the first to be {}", cut.begin, cut.end, next);
    }
    next = cut.end;
  }
  if (next == 0) return invalid_argument("no rank has an expert");
  return {};
}

Result<QTensor> gather(const QTensor& rows, std::span<const int64_t> order) {
  std::vector<QTensor> parts;
  for (int64_t row : order) {
    TRY_BIND(QTensor one, rows.slice_rows(row, row + 1));
    parts.push_back(std::move(one));
  }
  return QTensor::concat_rows(parts);
}

/// A rank's message in the making.
struct Draft {
  std::vector<int64_t> order;  // rows of the sender
  std::vector<ExpertMessage::Choice> choices;
};

}  // namespace

Result<ExpertDispatch> dispatch_rows(const QTensor& rows, std::span<const ChosenExpert> chosen,
                                     std::span<const AxisCut> experts) {
  TRY_STATUS(check_partition(experts));
  CHECK(chosen.size() % static_cast<size_t>(rows.rows()) == 0, "{} choices of {} rows", chosen.size(), rows.rows());
  if (rows.codec().group_rows > 1) {
    return unsupported("rows of {} cannot go apart: {} share a scale", rows.codec().name, rows.codec().group_rows);
  }
  const size_t each = chosen.size() / static_cast<size_t>(rows.rows());
  ExpertDispatch made;
  std::vector<Draft> drafts(experts.size());
  for (int64_t row = 0; row < rows.rows(); ++row) {
    const auto first = chosen.begin() + row * static_cast<std::ptrdiff_t>(each);
    std::vector<ChosenExpert> own(first, first + static_cast<std::ptrdiff_t>(each));
    std::ranges::stable_sort(own, {}, &ChosenExpert::expert);
    for (const ChosenExpert& choice : own) {
      const std::optional<size_t> rank = rank_of(choice.expert, experts);
      if (!rank) {
        ++(choice.expert < 0 ? made.empty_slots : made.unknown);
        continue;
      }
      Draft& draft = drafts[*rank];
      if (draft.order.empty() || draft.order.back() != row) draft.order.push_back(row);
      draft.choices.push_back({static_cast<int64_t>(draft.order.size()) - 1, row, choice.expert, choice.weight});
    }
  }
  for (Draft& draft : drafts) {
    if (draft.order.empty()) {
      made.to.emplace_back();
      continue;
    }
    TRY_BIND(QTensor gathered, gather(rows, draft.order));
    made.to.push_back(ExpertMessage{std::move(gathered), std::move(draft.choices)});
  }
  return made;
}

void add_answers(const ExpertMessage& message, std::span<const float> answers, int64_t hidden, std::span<float> sums) {
  CHECK(answers.size() == message.choices.size() * static_cast<size_t>(hidden), "{} answers to {} choices of {}",
        answers.size(), message.choices.size(), hidden);
  for (size_t i = 0; i < message.choices.size(); ++i) {
    const ExpertMessage::Choice& choice = message.choices[i];
    float* sum = sums.data() + choice.source_row * hidden;
    for (int64_t col = 0; col < hidden; ++col)
      sum[col] += choice.weight * answers[i * static_cast<size_t>(hidden) + static_cast<size_t>(col)];
  }
}

}  // namespace vernier
