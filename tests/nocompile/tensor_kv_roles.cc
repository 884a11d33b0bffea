// A reader or writer of keys holds the scale of keys: it cannot serve values, nor the other way round.
#include "ops/kv_access.h"

namespace vernier {

void store(KvWriter<KvRole::kKey>& keys, KvWriter<KvRole::kValue>& values);
void load(const KvReader<KvRole::kKey>& keys, const KvReader<KvRole::kValue>& values);

void use(std::byte* bytes, KvExtents extents) {
  KvWriter<KvRole::kKey> key_writer(bytes, extents, CodecId::kE4M3Tensor, 0.3f);
  KvWriter<KvRole::kValue> value_writer(bytes, extents, CodecId::kE4M3Tensor, 1.7f);
  KvReader<KvRole::kKey> key_reader(bytes, extents, CodecId::kE4M3Tensor, 0.3f);
  KvReader<KvRole::kValue> value_reader(bytes, extents, CodecId::kE4M3Tensor, 1.7f);
#ifndef VERNIER_MISUSE
  store(key_writer, value_writer);
  load(key_reader, value_reader);
#elif VERNIER_MISUSE == 1
  store(value_writer, key_writer);  // expect-error: invalid initialization of reference
#elif VERNIER_MISUSE == 2
  load(key_reader, key_reader);  // expect-error: invalid initialization of reference
#elif VERNIER_MISUSE == 3
  value_writer = key_writer;  // expect-error: no match for
#elif VERNIER_MISUSE == 4
  KvWriter<KvRole::kKey> unscaled(bytes, extents,
                                  CodecId::kE4M3Tensor);  // expect-error: no matching function for call to
#elif VERNIER_MISUSE == 5
  key_reader.scale_ = 1.0f;  // expect-error: is private
#endif
}

}  // namespace vernier
