#include "text/token_model.h"

#include <fmt/format.h>

namespace vernier {

std::vector<TokenId> TokenModel::byte_tokens() const {
  std::vector<TokenId> ids(256);
  for (size_t byte = 0; byte < 256; ++byte) ids[byte] = vocabulary_->find(fmt::format("<0x{:02X}>", byte)).value_or(-1);
  return ids;
}

}  // namespace vernier
