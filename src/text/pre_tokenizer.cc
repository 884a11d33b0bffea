#include "text/pre_tokenizer.h"

#include <algorithm>

#include "text/byte_alphabet.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace vernier {

const std::string_view kGpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

namespace {

/// A part of a piece, and whether it is a match or what lies between matches.
struct Part {
  ByteRange range;
  bool is_match;
};

/// Turns matches into parts: what lies between them too, and with `invert` the other way round.
class PartList {
 public:
  PartList(std::vector<Part>& parts, bool invert) : parts_(parts), invert_(invert) {}
  void add_match(size_t begin, size_t end) {
    add_gap(begin);
    parts_.push_back({{begin, end}, !invert_});
    done_ = end;
  }
  void finish(size_t size) { add_gap(size); }

 private:
  void add_gap(size_t until) {
    if (until > done_) parts_.push_back({{done_, until}, invert_});
  }
  std::vector<Part>& parts_;
  bool invert_;
  size_t done_ = 0;
};

void find_parts(const SplitPattern& pattern, bool invert, std::string_view piece, std::vector<Part>& parts) {
  PartList list(parts, invert);
  if (const Regex* regex = std::get_if<Regex>(&pattern)) {
    RegexSearch search(*regex, piece);
    while (std::optional<RegexMatch> match = search.next()) list.add_match(match->begin, match->end);
  } else {
    const CodePointBitmap& set = std::get<CodePointBitmap>(pattern);
    for (size_t at = 0; at < piece.size();) {
      DecodedCodePoint c = decode_utf8(piece, at);
      if (set.contains(c.value)) list.add_match(at, at + c.size_bytes);
      at += c.size_bytes;
    }
  }
  list.finish(piece.size());
}

/// Joins each match to its neighbour, or matches to each other.
void merge_parts(SplitBehaviour behaviour, std::vector<Part>& parts) {
  if (behaviour == SplitBehaviour::kIsolated || behaviour == SplitBehaviour::kRemoved) return;
  if (behaviour == SplitBehaviour::kMergedWithNext) std::reverse(parts.begin(), parts.end());
  bool previous = false;
  size_t kept = 0;
  for (const Part& part : parts) {
    bool joins = behaviour == SplitBehaviour::kContiguous ? part.is_match == previous : part.is_match && !previous;
    previous = part.is_match;
    if (joins && kept > 0) {
      ByteRange& last = parts[kept - 1].range;
      last = {std::min(last.begin, part.range.begin), std::max(last.end, part.range.end)};
    } else {
      parts[kept++] = part;
    }
  }
  parts.resize(kept);
  if (behaviour == SplitBehaviour::kMergedWithNext) std::reverse(parts.begin(), parts.end());
}

/// Appends the pieces that a pattern cuts out of one, moved by `offset`.
void cut(const SplitPattern& pattern, SplitBehaviour behaviour, bool invert, std::string_view piece, size_t offset,
         std::vector<ByteRange>& out) {
  if (const Regex* regex = std::get_if<Regex>(&pattern); regex != nullptr && behaviour == SplitBehaviour::kIsolated) {
    // The common case: matches and what lies between them are pieces alike.
    RegexSearch search(*regex, piece);
    size_t done = 0;
    while (std::optional<RegexMatch> match = search.next()) {
      if (match->begin > done) out.push_back({offset + done, offset + match->begin});
      if (match->end > match->begin) out.push_back({offset + match->begin, offset + match->end});
      done = match->end;
    }
    if (piece.size() > done) out.push_back({offset + done, offset + piece.size()});
    return;
  }
  std::vector<Part> parts;
  find_parts(pattern, invert, piece, parts);
  merge_parts(behaviour, parts);
  for (const Part& part : parts) {
    bool removed = behaviour == SplitBehaviour::kRemoved && part.is_match;
    if (!removed && part.range.end > part.range.begin)
      out.push_back({offset + part.range.begin, offset + part.range.end});
  }
}

class Split : public PreTokenizer {
 public:
  Split(SplitPattern pattern, SplitBehaviour behaviour, bool invert)
      : pattern_(std::move(pattern)), behaviour_(behaviour), invert_(invert) {}
  void apply(SplitText& text) const override {
    std::vector<ByteRange> out;
    out.reserve(text.pieces.size());
    for (ByteRange piece : text.pieces) {
      std::string_view view = std::string_view(text.text.text).substr(piece.begin, piece.end - piece.begin);
      cut(pattern_, behaviour_, invert_, view, piece.begin, out);
    }
    text.pieces = std::move(out);
  }

 private:
  SplitPattern pattern_;
  SplitBehaviour behaviour_;
  bool invert_;
};

/// Replaces the text by what `rewrite` writes for each piece.
template <class Rewrite>
void rewrite_pieces(SplitText& text, Rewrite rewrite) {
  MarkedWriter writer(text.text);
  std::vector<ByteRange> out;
  out.reserve(text.pieces.size());
  for (size_t i = 0; i < text.pieces.size(); ++i) {
    size_t begin = writer.size();
    rewrite(writer, text.pieces[i], i);
    out.push_back({begin, writer.size()});
  }
  text.text = writer.take();
  text.pieces = std::move(out);
}

class ByteLevel : public PreTokenizer {
 public:
  ByteLevel(bool add_prefix_space, bool use_regex) : add_prefix_space_(add_prefix_space) {
    if (!use_regex) return;
    Result<Regex> compiled = Regex::compile(kGpt2Pattern);
    CHECK(compiled.ok(), "{}", compiled.error().message);
    split_ = make_split(std::move(compiled).value(), SplitBehaviour::kIsolated);
  }
  void apply(SplitText& text) const override {
    if (add_prefix_space_) {
      rewrite_pieces(text, [&](MarkedWriter& writer, ByteRange piece, size_t) {
        if (text.text.text[piece.begin] != ' ') writer.put(piece.begin, piece.begin, " ");
        writer.copy(piece.begin, piece.end);
      });
    }
    if (split_) split_->apply(text);
    rewrite_pieces(text, [&](MarkedWriter& writer, ByteRange piece, size_t) {
      byte_alphabet::spell(writer, text.text.text, piece.begin, piece.end);
    });
  }

 private:
  bool add_prefix_space_;
  std::unique_ptr<PreTokenizer> split_;
};

class Metaspace : public PreTokenizer {
 public:
  Metaspace(std::string replacement, PrependScheme scheme, bool split)
      : replacement_(std::move(replacement)), scheme_(scheme) {
    if (split) split_ = make_split(Regex::literal(replacement_), SplitBehaviour::kMergedWithNext);
  }
  void apply(SplitText& text) const override {
    const std::string& source = text.text.text;
    rewrite_pieces(text, [&](MarkedWriter& writer, ByteRange piece, size_t index) {
      bool wanted =
          scheme_ == PrependScheme::kAlways || (scheme_ == PrependScheme::kFirst && text.at_start && index == 0);
      bool there = source[piece.begin] == ' ' || source.compare(piece.begin, replacement_.size(), replacement_) == 0;
      if (wanted && !there) writer.put(piece.begin, piece.begin, replacement_);
      size_t copied = piece.begin;
      for (size_t at = piece.begin; at < piece.end; ++at) {
        if (source[at] != ' ') continue;
        writer.copy(copied, at);
        writer.put(at, at + 1, replacement_);
        copied = at + 1;
      }
      writer.copy(copied, piece.end);
    });
    if (split_) split_->apply(text);
  }

 private:
  std::string replacement_;
  PrependScheme scheme_;
  std::unique_ptr<PreTokenizer> split_;
};

}  // namespace

std::unique_ptr<PreTokenizer> make_split(SplitPattern pattern, SplitBehaviour behaviour, bool invert) {
  return std::make_unique<Split>(std::move(pattern), behaviour, invert);
}

std::unique_ptr<PreTokenizer> make_digits(bool individual) {
  return make_split(CodePointBitmap(unicode::numeric()),
                    individual ? SplitBehaviour::kIsolated : SplitBehaviour::kContiguous);
}

std::unique_ptr<PreTokenizer> make_punctuation(SplitBehaviour behaviour) {
  return make_split(CodePointBitmap(unicode::punctuation()), behaviour);
}

std::unique_ptr<PreTokenizer> make_whitespace_split() {
  return make_split(CodePointBitmap(unicode::white_space()), SplitBehaviour::kRemoved);
}

std::unique_ptr<PreTokenizer> make_whitespace() {
  Result<Regex> compiled = Regex::compile(R"(\w+|[^\w\s]+)");
  CHECK(compiled.ok(), "{}", compiled.error().message);
  return make_split(std::move(compiled).value(), SplitBehaviour::kRemoved, true);
}

std::unique_ptr<PreTokenizer> make_byte_level(bool add_prefix_space, bool use_regex) {
  return std::make_unique<ByteLevel>(add_prefix_space, use_regex);
}

std::unique_ptr<PreTokenizer> make_metaspace(std::string replacement, PrependScheme scheme, bool split) {
  return std::make_unique<Metaspace>(std::move(replacement), scheme, split);
}

}  // namespace vernier
