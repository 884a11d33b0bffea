#include "backends/cpu/cold_memory.h"

#include <algorithm>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace vernier {
namespace {

constexpr int64_t kCacheLine = 64;
constexpr int64_t kForgottenEach = 256 << 10;

#if defined(__x86_64__)
[[gnu::target("clflushopt")]] void forget_lines_fast(const char* from, const char* end) {
  for (; from < end; from += kCacheLine) _mm_clflushopt(const_cast<char*>(from));
  _mm_sfence();
}

void forget_lines(const char* from, const char* end) {
  static const bool fast = __builtin_cpu_supports("clflushopt") != 0;
  if (fast) return forget_lines_fast(from, end);
  for (; from < end; from += kCacheLine) _mm_clflush(from);
}
#elif defined(__aarch64__)
void forget_lines(const char* from, const char* end) {
  for (; from < end; from += kCacheLine) asm volatile("dc civac, %0" ::"r"(from) : "memory");
  asm volatile("dsb ish" ::: "memory");
}
#else
void forget_lines(const char*, const char*) {}
#endif

}  // namespace

void forget_cached(ThreadPool& pool, const void* from, int64_t bytes) {
  const char* const begin = static_cast<const char*>(from);
  const int64_t chunks = (bytes + kForgottenEach - 1) / kForgottenEach;
  pool.parallel_for(static_cast<int>(chunks), [&](int chunk) {
    const int64_t at = chunk * kForgottenEach;
    forget_lines(begin + at, begin + std::min(bytes, at + kForgottenEach));
  });
}

}  // namespace vernier
