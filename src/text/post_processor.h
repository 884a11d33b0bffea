#pragma once

#include <optional>
#include <vector>

#include "text/vocabulary.h"

namespace vernier {

/// Where special tokens stand around a text: their ids in order, and nothing where the text goes.
using TokenTemplate = std::vector<std::optional<TokenId>>;

/// Templates one after another, each around what the one before it made.
inline std::vector<TokenId> apply_templates(const std::vector<TokenTemplate>& templates, std::vector<TokenId> ids) {
  for (const TokenTemplate& form : templates) {
    std::vector<TokenId> out;
    out.reserve(ids.size() + form.size());
    for (const std::optional<TokenId>& item : form) {
      if (item) {
        out.push_back(*item);
      } else {
        out.insert(out.end(), ids.begin(), ids.end());
      }
    }
    ids = std::move(out);
  }
  return ids;
}

}  // namespace vernier
