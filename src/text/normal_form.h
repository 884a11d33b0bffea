#pragma once

#include "text/marked_text.h"

namespace vernier {

/// The normal forms of Unicode 9.0: newer marks have no order, as in Hugging Face's tokenizers.
enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

void normalise(MarkedText& text, NormalForm form);
void lower_case(MarkedText& text);

}  // namespace vernier
