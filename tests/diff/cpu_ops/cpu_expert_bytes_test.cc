#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <random>

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/cpu_matrix.h"
#include "testing/isa.h"
#include "testing/op_bench.h"

namespace vernier {
namespace {

using testing::OpBench;
using testing::random_numbers;

constexpr int kExperts = 8, kChosen = 3;
constexpr int64_t kHidden = 256, kWidth = 128;

/// Counts the pages of some memory that are touched: each is closed until the first read of it.
class PageCounter {
 public:
  PageCounter() {
    struct sigaction action = {};
    action.sa_sigaction = &PageCounter::fault;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, &before_);
  }
  ~PageCounter() { sigaction(SIGSEGV, &before_, nullptr); }

  /// `data` is the beginning of a page, and what follows the last byte on its page belongs to nobody.
  static void watch(int range, const uint8_t* data, int64_t bytes) {
    const int64_t page = sysconf(_SC_PAGESIZE);
    ranges_[range] = {data, (bytes + page - 1) / page, page, 0};
    close(ranges_[range]);
  }
  static void close(int range) {
    ranges_[range].touched = 0;
    close(ranges_[range]);
  }
  static int64_t touched(int range) { return ranges_[range].touched; }
  static int64_t pages(int range) { return ranges_[range].pages; }

 private:
  struct Range {
    const uint8_t* data = nullptr;
    int64_t pages = 0, page = 1;
    std::atomic<int64_t> touched = 0;
    Range& operator=(const Range& other) {
      data = other.data, pages = other.pages, page = other.page, touched = other.touched.load();
      return *this;
    }
    Range() = default;
    Range(const uint8_t* at, int64_t count, int64_t size, int64_t seen)
        : data(at), pages(count), page(size), touched(seen) {}
  };

  static void close(const Range& range) {
    CHECK(mprotect(const_cast<uint8_t*>(range.data), static_cast<size_t>(range.pages * range.page), PROT_NONE) == 0,
          "mprotect");
  }
  static void fault(int, siginfo_t* info, void*) {
    const auto* at = static_cast<const uint8_t*>(info->si_addr);
    for (Range& range : ranges_) {
      if (range.data == nullptr || at < range.data || at >= range.data + range.pages * range.page) continue;
      ++range.touched;
      auto* start = const_cast<uint8_t*>(range.data + (at - range.data) / range.page * range.page);
      mprotect(start, static_cast<size_t>(range.page), PROT_READ | PROT_WRITE);
      return;
    }
    signal(SIGSEGV, SIG_DFL);
  }

  static Range ranges_[2 * kExperts];
  struct sigaction before_ = {};
};

PageCounter::Range PageCounter::ranges_[2 * kExperts];

class CpuExpertBytes : public ::testing::TestWithParam<CodecId> {};

// A token reads the weights of the experts that it chose, whole, and not a byte of the others.
TEST_P(CpuExpertBytes, ATokenReadsTheChosenExpertsAlone) {
  auto backend = CpuBackend::make({.threads = 1, .isa = testing::requested_isa(), .numerics = Numerics::kFast}).value();
  CacheSpec cache;
  cache.kv_heads = 1;
  cache.head_dim = 2;
  OpBench bench(*backend, cache, {.context_tokens = 64, .max_rows = 8});
  std::mt19937 random(5);
  auto matrix = [&](int64_t rows, int64_t cols, CodecId id) {
    const float spread = 1.2f / std::sqrt(static_cast<float>(cols));
    return encode(codec(id), rows, cols, random_numbers(random, rows * cols, spread)).value();
  };
  bench.set_inputs(4, kHidden, random_numbers(random, 4 * kHidden, 1.0f, 0.1f));
  ExpertsLayer layer;
  layer.spec.experts = kExperts;
  layer.spec.chosen = kChosen;
  layer.spec.width = kWidth;
  layer.router = bench.weight<Split::kNone>({matrix(kExperts, kHidden, CodecId::kBF16)}, {}, PackUse::kRouter);
  for (int expert = 0; expert < kExperts; ++expert) {
    layer.gate_up.push_back(bench.weight<Split::kColumns>({matrix(2 * kWidth, kHidden, GetParam())}));
    layer.down.push_back(bench.weight<Split::kRows>({matrix(kHidden, kWidth, GetParam())}));
  }
  const PageCounter counter;
  for (int expert = 0; expert < kExperts; ++expert) {
    const CpuMatrix& gate_up = cpu_matrix(*layer.gate_up[static_cast<size_t>(expert)].matrix);
    const CpuMatrix& down = cpu_matrix(*layer.down[static_cast<size_t>(expert)].matrix);
    PageCounter::watch(2 * expert, gate_up.segments()[0].data, gate_up.info().bytes);
    PageCounter::watch(2 * expert + 1, down.segments()[0].data, down.info().bytes);
  }
  for (int32_t row = 0; row < 4; ++row) {
    for (int range = 0; range < 2 * kExperts; ++range) PageCounter::close(range);
    bench.driver().begin({{row}});
    const std::vector<float> out = bench.read(bench.ops().reduce(bench.ops().experts(bench.input(), layer)));
    EXPECT_TRUE(std::isfinite(out[0]));
    int read = 0;
    for (int expert = 0; expert < kExperts; ++expert) {
      if (PageCounter::touched(2 * expert) == 0 && PageCounter::touched(2 * expert + 1) == 0) continue;
      ++read;
      for (int range : {2 * expert, 2 * expert + 1}) {
        EXPECT_EQ(PageCounter::touched(range), PageCounter::pages(range)) << "row " << row << " expert " << expert;
      }
    }
    EXPECT_EQ(read, kChosen) << "row " << row;
  }
}

INSTANTIATE_TEST_SUITE_P(Codecs, CpuExpertBytes,
                         ::testing::Values(CodecId::kMxfp4, CodecId::kNvfp4, CodecId::kMxfp8, CodecId::kE4M3Channel,
                                           CodecId::kBF16));

}  // namespace
}  // namespace vernier
