#pragma once

#include <memory>
#include <vector>

#include "text/marked_text.h"
#include "text/normal_form.h"
#include "text/regex.h"

namespace vernier {

/// One step that changes text before it is split. Immutable; any thread.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(MarkedText& text) const = 0;
};

/// Steps one after another.
using Normalizers = std::vector<std::unique_ptr<Normalizer>>;

inline void apply_all(const Normalizers& normalizers, MarkedText& text) {
  for (const auto& normalizer : normalizers) normalizer->apply(text);
}

/// What a BERT checkpoint asks of its text.
struct BertNormalizerOptions {
  bool clean_text = true;
  bool space_out_han = true;
  bool strip_accents = true;
  bool lowercase = true;
};

class Charsmap;

std::unique_ptr<Normalizer> make_normal_form(NormalForm form);
std::unique_ptr<Normalizer> make_lowercase();
std::unique_ptr<Normalizer> make_prepend(std::string text);
std::unique_ptr<Normalizer> make_replace(Regex pattern, std::string content);
std::unique_ptr<Normalizer> make_strip(bool left, bool right);
std::unique_ptr<Normalizer> make_strip_accents();
std::unique_ptr<Normalizer> make_nmt();
std::unique_ptr<Normalizer> make_precompiled(Charsmap map);
std::unique_ptr<Normalizer> make_byte_level_normalizer();
std::unique_ptr<Normalizer> make_bert_normalizer(BertNormalizerOptions options);

}  // namespace vernier
