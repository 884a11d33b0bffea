#include "text/tokenizer.h"

#include <algorithm>

#include "text/byte_alphabet.h"
#include "text/detokenizer.h"
#include "text/utf8.h"

namespace vernier {
namespace {

constexpr size_t kMaxTextBytes = size_t{1} << 30;
constexpr size_t kMaxStretchBytes = (size_t{1} << 31) - 1;  // places in it are 31 bits in the models

/// The input made valid, with the callers' bytes marked.
Result<MarkedText> make_valid(std::string_view text, std::span<const ByteRange> caller_ranges) {
  MarkedText marked{std::string(text), {}};
  if (!caller_ranges.empty()) marked.marks.resize(text.size(), 0);
  for (ByteRange range : caller_ranges) {
    if (range.begin > range.end || range.end > text.size()) {
      return invalid_argument("a caller's range of bytes {} to {} in a text of {} bytes", range.begin, range.end,
                              text.size());
    }
    std::fill(marked.marks.begin() + static_cast<ptrdiff_t>(range.begin),
              marked.marks.begin() + static_cast<ptrdiff_t>(range.end), uint8_t{1});
  }
  if (is_valid_utf8(text)) return marked;
  MarkedWriter writer(marked);
  for (size_t at = 0; at < text.size();) {
    Utf8Span span = scan_utf8(text, at);
    if (span.kind == Utf8Kind::kWhole) {
      writer.copy(at, at + span.size_bytes);
    } else {
      writer.put(at, at + span.size_bytes, kReplacementCharacter);
    }
    at += span.size_bytes;
  }
  return writer.take();
}

MarkedText part_of(const MarkedText& whole, ByteRange range) {
  MarkedText part{whole.text.substr(range.begin, range.end - range.begin), {}};
  if (!whole.marks.empty()) {
    part.marks.assign(whole.marks.begin() + static_cast<ptrdiff_t>(range.begin),
                      whole.marks.begin() + static_cast<ptrdiff_t>(range.end));
  }
  return part;
}

/// Whether merges within a caller's text must not end in this token: controls, and what is written like a marker. Other
/// added tokens, such as runs of white space, are ordinary text to the model.
bool is_marker(const AddedToken& token) {
  return token.special || token.text.starts_with('<') || token.text.starts_with('[');
}

}  // namespace

Tokenizer::Tokenizer(TokenizerParts parts)
    : Tokenizer(std::make_shared<const TokenizerParts>(std::move(parts)), {}, {}) {}

Tokenizer::Tokenizer(std::shared_ptr<const TokenizerParts> parts, std::vector<AddedToken> added,
                     std::vector<std::string> extra)
    : parts_(std::move(parts)), extra_(std::move(extra)) {
  size_ = parts_->vocabulary->size();
  for (const AddedToken& token : parts_->added) size_ = std::max(size_, static_cast<size_t>(token.id) + 1);
  extra_begin_ = size_;
  size_ += extra_.size();
  added.insert(added.begin(), parts_->added.begin(), parts_->added.end());
  added_ = AddedTokens(std::move(added), parts_->normalizers);
  barred_.resize(size_);
  for (const AddedToken& token : added_.all()) {
    if (is_marker(token)) barred_[static_cast<size_t>(token.id)] = true;
    if (token.special) special_texts_.push_back(token.text);
  }
  std::sort(special_texts_.begin(), special_texts_.end());
}

Result<Tokenizer> Tokenizer::extended(std::span<const ExtraToken> tokens) const {
  if (parts_->decoder.size() != 1 || parts_->decoder.front().kind != DecoderKind::kByteLevel || !extra_.empty()) {
    return unsupported("tokens of any bytes need a tokenizer whose decoder is ByteLevel alone, and that has none yet");
  }
  std::vector<AddedToken> added;
  std::vector<std::string> extra;
  for (const ExtraToken& token : tokens) {
    if (token.control) {
      AddedToken control;
      control.id = static_cast<TokenId>(size_ + extra.size());
      control.text = token.bytes;
      control.special = true;
      added.push_back(std::move(control));
    }
    extra.push_back(token.control ? token.bytes : byte_alphabet::spell(token.bytes));
  }
  return Tokenizer(parts_, std::move(added), std::move(extra));
}

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  if (text.size() > kMaxTextBytes)
    return invalid_argument("a text of {} bytes; at most {} are tokenised", text.size(), kMaxTextBytes);
  TRY_BIND(MarkedText raw, make_valid(text, options.caller_ranges));
  std::vector<TokenId> ids;
  for (const AddedTokens::Match& section : added_.cut(raw, false, options.parse_special)) {
    if (section.id) {
      ids.push_back(*section.id);
      continue;
    }
    MarkedText normalised = part_of(raw, section.range);
    apply_all(parts_->normalizers, normalised);
    for (const AddedTokens::Match& stretch : added_.cut(normalised, true, options.parse_special)) {
      if (stretch.id) {
        ids.push_back(*stretch.id);
        continue;
      }
      bool whole = stretch.range.begin == 0 && stretch.range.end == normalised.text.size();
      SplitText split;
      split.at_start = section.range.begin == 0 && stretch.range.begin == 0;
      split.text = whole ? std::move(normalised) : part_of(normalised, stretch.range);
      split.pieces = {{0, split.text.text.size()}};
      TRY_STATUS(encode_normalised(std::move(split), ids));
    }
  }
  return options.add_special ? apply_templates(parts_->templates, std::move(ids)) : std::move(ids);
}

Status Tokenizer::encode_normalised(SplitText stretch, std::vector<TokenId>& out) const {
  for (const auto& step : parts_->pre_tokenizers) step->apply(stretch);
  if (stretch.text.text.size() > kMaxStretchBytes) {
    return invalid_argument("a text that is {} bytes long once it is normalised; at most {} are tokenised",
                            stretch.text.text.size(), kMaxStretchBytes);
  }
  ModelInput input{stretch.text, barred_};
  for (ByteRange piece : stretch.pieces) parts_->model->tokenize(input, piece, out);
  return {};
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  Detokenizer detokenizer(*this, skip_special);
  std::string text;
  for (TokenId id : ids) detokenizer.push(id, text);
  detokenizer.finish(text);
  return text;
}

std::optional<std::string_view> Tokenizer::token_text(TokenId id) const {
  if (const AddedToken* token = added_.find(id)) return token->text;
  if (parts_->vocabulary->has(id)) return parts_->vocabulary->text(id);
  size_t extra = static_cast<size_t>(id) - extra_begin_;  // wraps around for any other id
  return extra < extra_.size() ? std::optional<std::string_view>(extra_[extra]) : std::nullopt;
}

std::optional<std::string_view> Tokenizer::decoded_text(TokenId id) const {
  if (const AddedToken* token = added_.find(id)) return token->decoded;
  return token_text(id);
}

std::optional<std::string> Tokenizer::token_bytes(TokenId id) const {
  std::optional<std::string_view> text = decoded_text(id);
  if (!text) return std::nullopt;
  return decode_token_bytes(parts_->decoder, *text);
}

std::optional<TokenId> Tokenizer::find_token(std::string_view text) const {
  for (const AddedToken& token : added_.all()) {
    if (token.text == text) return token.id;
  }
  return parts_->vocabulary->find(text);
}

bool Tokenizer::is_special(TokenId id) const {
  const AddedToken* token = added_.find(id);
  return token != nullptr && token->special;
}

bool Tokenizer::is_skipped(TokenId id) const {
  std::optional<std::string_view> text = decoded_text(id);
  return text && std::binary_search(special_texts_.begin(), special_texts_.end(), *text);
}

}  // namespace vernier
