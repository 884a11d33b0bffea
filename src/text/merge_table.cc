#include "text/merge_table.h"

#include <algorithm>
#include <numeric>

#include "text/utf8.h"

namespace vernier {

void MergeTable::add(TokenId left, TokenId right, uint32_t rank, TokenId joined) {
  pairs_.insert(key(left, right), {rank, joined}) = {rank, joined};
}

/// Where the ordinary tokens stand in order of falling scores, the id is the rank. That also places the tokens that
/// converters give a score of no meaning, as Gemma's runs of white space.
MergeTable::MergeTable(const Vocabulary& vocabulary, const std::vector<float>& scores,
                       const std::vector<bool>& ordinary)
    : vocabulary_(&vocabulary) {
  bool sorted = true;
  float last = std::numeric_limits<float>::infinity();
  for (size_t id = 0; id < scores.size(); ++id) {
    if (!ordinary[id]) continue;
    sorted = sorted && scores[id] < last;
    last = scores[id];
  }
  if (sorted) return;
  std::vector<uint32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return scores[a] > scores[b]; });
  ranks_.resize(scores.size());
  uint32_t rank = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i > 0 && scores[order[i]] != scores[order[i - 1]]) rank = static_cast<uint32_t>(i);
    ranks_[order[i]] = rank;
  }
}

std::optional<Merge> MergeTable::find(TokenId left, TokenId right, std::string_view text) const {
  if (!by_text()) {
    const Entry* entry = pairs_.find(key(left, right));
    if (entry == nullptr) return std::nullopt;
    return Merge{entry->rank, 0, entry->id};
  }
  std::optional<TokenId> joined = vocabulary_->find(text);
  if (!joined) return std::nullopt;
  auto characters = [](std::string_view token) {
    return static_cast<uint64_t>(
        std::count_if(token.begin(), token.end(), [](char c) { return !is_utf8_continuation(c); }));
  };
  // Among pairs of equal score the longer left part comes first, then the longer right part, then the lower id.
  auto inverted = [&](TokenId id) { return 0xFFFF - std::min<uint64_t>(characters(vocabulary_->text(id)), 0xFFFF); };
  auto id = static_cast<uint32_t>(*joined);
  uint64_t tie = inverted(left) << 48 | inverted(right) << 32 | id;
  return Merge{ranks_.empty() ? id : ranks_[id], tie, *joined};
}

MergeListReader::MergeListReader(const Vocabulary& vocabulary, size_t expected, size_t prefix_size)
    : vocabulary_(vocabulary), prefix_size_(prefix_size), table_(expected) {}

void MergeListReader::add(std::string_view left, std::string_view right) {
  size_t begin = joined_.size();
  joined_.append(left).append(right.substr(std::min(prefix_size_, right.size())));
  texts_.push_back(left);
  texts_.push_back(right);
  // joined_ may move while the batch grows; flush() makes the view.
  texts_.emplace_back(static_cast<const char*>(nullptr), joined_.size() - begin);
  if (texts_.size() == 3 * kBatch) flush();
}

void MergeListReader::flush() {
  std::vector<TokenId> ids(texts_.size());
  size_t offset = 0;
  for (size_t i = 2; i < texts_.size(); i += 3) {
    texts_[i] = std::string_view(joined_).substr(offset, texts_[i].size());
    offset += texts_[i].size();
  }
  vocabulary_.find_all(texts_, ids);
  for (size_t i = 0; i < ids.size(); i += 3) table_.prefetch(ids[i], ids[i + 1]);
  for (size_t i = 0; i < ids.size(); i += 3, ++rank_) {
    if (ids[i] >= 0 && ids[i + 1] >= 0 && ids[i + 2] >= 0) {
      table_.add(ids[i], ids[i + 1], rank_, ids[i + 2]);
    } else if (!error_) {
      error_ = corrupt("merge {} ('{}' and '{}') names a token that is not in the vocabulary", rank_, texts_[i],
                       texts_[i + 1]);
    }
  }
  texts_.clear();
  joined_.clear();
}

Result<MergeTable> MergeListReader::build() && {
  flush();
  if (error_) return *error_;
  return std::move(table_);
}

}  // namespace vernier
