#include "text/normalizer.h"

#include "text/byte_alphabet.h"
#include "text/charsmap.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace vernier {
namespace {

class NormalFormStep : public Normalizer {
 public:
  explicit NormalFormStep(NormalForm form) : form_(form) {}
  void apply(MarkedText& text) const override { normalise(text, form_); }

 private:
  NormalForm form_;
};

class Lowercase : public Normalizer {
 public:
  void apply(MarkedText& text) const override { lower_case(text); }
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}
  void apply(MarkedText& text) const override {
    if (text.text.empty()) return;
    MarkedWriter writer(text);
    writer.put(0, 0, prefix_);
    writer.copy(0, text.text.size());
    text = writer.take();
  }

 private:
  std::string prefix_;
};

class Replace : public Normalizer {
 public:
  Replace(Regex pattern, std::string content) : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void apply(MarkedText& text) const override {
    MarkedWriter writer(text);
    RegexSearch search(pattern_, text.text);
    size_t copied = 0;
    while (std::optional<RegexMatch> match = search.next()) {
      writer.copy(copied, match->begin);
      writer.put(match->begin, match->end, content_);
      copied = match->end;
    }
    if (copied == 0 && writer.size() == 0) return;
    writer.copy(copied, text.text.size());
    text = writer.take();
  }

 private:
  Regex pattern_;
  std::string content_;
};

class Strip : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right), space_(unicode::white_space()) {}
  void apply(MarkedText& text) const override {
    std::string_view view = text.text;
    size_t begin = 0, end = view.size();
    while (left_ && begin < end && space_.contains(decode_utf8(view, begin).value)) begin += utf8_size(view[begin]);
    while (right_ && end > begin) {
      size_t last = previous_utf8(view, end);
      if (!space_.contains(decode_utf8(view, last).value)) break;
      end = last;
    }
    MarkedWriter writer(text);
    writer.copy(begin, end);
    text = writer.take();
  }

 private:
  bool left_, right_;
  CodePointBitmap space_;
};

/// Drops the characters of one set and writes a space for those of another.
class Filter : public Normalizer {
 public:
  Filter(const CodePointSet& dropped, const CodePointSet& spaces) : dropped_(dropped), spaces_(spaces) {}
  void apply(MarkedText& text) const override {
    MarkedWriter writer(text);
    for (size_t at = 0; at < text.text.size();) {
      DecodedCodePoint c = decode_utf8(text.text, at);
      size_t end = at + c.size_bytes;
      if (spaces_.contains(c.value)) {
        writer.put(at, end, " ");
      } else if (!dropped_.contains(c.value)) {
        writer.copy(at, end);
      }
      at = end;
    }
    text = writer.take();
  }

 private:
  CodePointBitmap dropped_, spaces_;
};

class Precompiled : public Normalizer {
 public:
  explicit Precompiled(Charsmap map) : map_(std::move(map)) {}
  void apply(MarkedText& text) const override { map_.apply(text); }

 private:
  Charsmap map_;
};

class ByteLevelNormalizer : public Normalizer {
 public:
  void apply(MarkedText& text) const override {
    MarkedWriter writer(text);
    byte_alphabet::spell(writer, text.text, 0, text.text.size());
    text = writer.take();
  }
};

/// Puts a space on either side of each ideograph.
class SpaceOutHan : public Normalizer {
 public:
  SpaceOutHan() : han_(CodePointSet(kIdeographs)) {}
  void apply(MarkedText& text) const override {
    MarkedWriter writer(text);
    for (size_t at = 0; at < text.text.size();) {
      DecodedCodePoint c = decode_utf8(text.text, at);
      size_t end = at + c.size_bytes;
      bool ideograph = han_.contains(c.value);
      if (ideograph) writer.put(at, end, " ");
      writer.copy(at, end);
      if (ideograph) writer.put(at, end, " ");
      at = end;
    }
    text = writer.take();
  }

 private:
  static constexpr CodePointRange kIdeographs[] = {{0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF},
                                                   {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF},
                                                   {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
  CodePointBitmap han_;
};

class StepList : public Normalizer {
 public:
  explicit StepList(Normalizers steps) : steps_(std::move(steps)) {}
  void apply(MarkedText& text) const override { apply_all(steps_, text); }

 private:
  Normalizers steps_;
};

}  // namespace

std::unique_ptr<Normalizer> make_normal_form(NormalForm form) {
  return std::make_unique<NormalFormStep>(form);
}
std::unique_ptr<Normalizer> make_lowercase() {
  return std::make_unique<Lowercase>();
}
std::unique_ptr<Normalizer> make_prepend(std::string text) {
  return std::make_unique<Prepend>(std::move(text));
}
std::unique_ptr<Normalizer> make_replace(Regex pattern, std::string content) {
  return std::make_unique<Replace>(std::move(pattern), std::move(content));
}
std::unique_ptr<Normalizer> make_strip(bool left, bool right) {
  return std::make_unique<Strip>(left, right);
}
std::unique_ptr<Normalizer> make_strip_accents() {
  return std::make_unique<Filter>(unicode::accents(), CodePointSet());
}
std::unique_ptr<Normalizer> make_precompiled(Charsmap map) {
  return std::make_unique<Precompiled>(std::move(map));
}
std::unique_ptr<Normalizer> make_byte_level_normalizer() {
  return std::make_unique<ByteLevelNormalizer>();
}

std::unique_ptr<Normalizer> make_nmt() {
  static constexpr CodePointRange kDropped[] = {{0x1, 0x8},   {0xB, 0xB},   {0xE, 0x1F},
                                                {0x7F, 0x7F}, {0x8F, 0x8F}, {0x9F, 0x9F}};
  static constexpr CodePointRange kSpaces[] = {{0x9, 0xA},       {0xC, 0xD},       {0x1680, 0x1680}, {0x200B, 0x200F},
                                               {0x2028, 0x2029}, {0x2581, 0x2581}, {0xFEFF, 0xFEFF}, {0xFFFD, 0xFFFD}};
  return std::make_unique<Filter>(CodePointSet(kDropped), CodePointSet(kSpaces));
}

std::unique_ptr<Normalizer> make_bert_normalizer(BertNormalizerOptions options) {
  Normalizers steps;
  if (options.clean_text) {
    const CodePointSet spaces = unicode::white_space().intersected(unicode::bert_dropped().complement());
    steps.push_back(std::make_unique<Filter>(unicode::bert_dropped(), spaces));
  }
  if (options.space_out_han) steps.push_back(std::make_unique<SpaceOutHan>());
  if (options.strip_accents) {
    steps.push_back(make_normal_form(NormalForm::kNfd));
    steps.push_back(std::make_unique<Filter>(unicode::bert_accents(), CodePointSet()));
  }
  if (options.lowercase) steps.push_back(make_lowercase());
  return std::make_unique<StepList>(std::move(steps));
}

}  // namespace vernier
