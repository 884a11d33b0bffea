// CPU-4: keys and values cross to a kernel as views of different types, each with its stored type and scale.
#include "backends/cpu/kv_view.h"

namespace vernier {

void attend(KvView<KvRole::kKey> keys, KvView<KvRole::kValue> values);

void use(KvView<KvRole::kKey> keys, KvView<KvRole::kValue> values) {
#ifndef VERNIER_MISUSE
  attend(keys, values);
#elif VERNIER_MISUSE == 1
  attend(values, keys);  // expect-error: could not convert
#elif VERNIER_MISUSE == 2
  keys = values;  // expect-error: no match for
#elif VERNIER_MISUSE == 3
  attend(keys.codes, values);  // expect-error: could not convert
#endif
}

}  // namespace vernier
