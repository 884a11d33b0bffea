// Long texts: linear time and a flat stack. (TEXT-4, TEXT-5)

#include <gtest/gtest.h>
#include <pthread.h>

#include <ctime>
#include <functional>

#include "small_tokenizer.h"
#include "testing/sanitized.h"
#include "text/split_rules.h"

namespace vernier {
namespace {

using testing_text::ids_of;
using testing_text::small_tokenizer;

std::string repeated(std::string_view unit, size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += unit;
  return text;
}

/// CPU time of the best of three, in seconds.
double seconds(const std::function<void()>& work) {
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    timespec begin{}, end{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    work();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    best = std::min(
        best, static_cast<double>(end.tv_sec - begin.tv_sec) + 1e-9 * static_cast<double>(end.tv_nsec - begin.tv_nsec));
  }
  return best;
}

class OneLetter : public ::testing::TestWithParam<const char*> {};

TEST_P(OneLetter, TwoMegabytesTakeAtMostAboutTwiceOne) {
  if (testing::kSanitized) GTEST_SKIP() << "a sanitised build is not timed";
  Tokenizer tokenizer = small_tokenizer(GetParam());
  for (std::string_view unit : {"a", "b", " ", "中"}) {
    std::string one = repeated(unit, 1 << 20), two = repeated(unit, 2 << 20);
    double first = seconds([&] { ids_of(tokenizer, one); });
    double second = seconds([&] { ids_of(tokenizer, two); });
    // 2.3 is what must hold on a quiet machine; neighbours disturb the caches here.
    EXPECT_LT(second, 2.3 * first + 0.05) << GetParam() << " '" << unit << "': " << first << " s, " << second << " s";
  }
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, OneLetter,
                         ::testing::Values("mini-merges", "mini-ignore-merges", "mini-spm-first", "mini-spm-prepend",
                                           "mini-unigram", "mini-unigram-bytes"),
                         [](const ::testing::TestParamInfo<const char*>& info) {
                           std::string name = info.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

constexpr size_t kLongRunBytes = testing::kSanitized ? 1 << 15 : 1 << 18;

/// Runs on a thread whose stack is a quarter of a megabyte.
void on_small_stack(std::function<void()> work) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 256 << 10);
  pthread_t thread;
  auto start = [](void* argument) -> void* {
    (*static_cast<std::function<void()>*>(argument))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, start, &work), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

TEST(FlatStack, LongRunsOfEveryKindAreTokenised) {
  for (const char* name : {"mini-merges", "mini-flags", "mini-spm-always", "mini-unigram-bytes"}) {
    Tokenizer tokenizer = small_tokenizer(name);
    for (std::string_view unit : {"Z", "é", " ", "1", "a\n", "中", "\xCC\x81", "'", "<a>", "aZ"}) {
      // This normalizer takes spaces off both ends, so spaces alone are no tokens.
      const bool nothing_left = unit == " " && std::string_view(name) == "mini-unigram-bytes";
      std::string text = repeated(unit, kLongRunBytes);
      on_small_stack([&] { EXPECT_EQ(ids_of(tokenizer, text).empty(), nothing_left) << name << unit; });
    }
  }
}

TEST(FlatStack, EverySplitRuleTakesLongRuns) {
  for (const char* name :
       {"gpt-2", "llama-bpe", "qwen2", "qwen35", "gpt-4o", "tekken", "deepseek-llm", "deepseek-coder", "deepseek-v3",
        "falcon", "command-r", "mpt", "smollm", "bloom", "bailingmoe", "seed-coder", "viking", "default", ""}) {
    auto rule = find_split_rule(name);
    ASSERT_TRUE(rule.ok()) << rule.error().message;
    for (std::string_view unit : {"Z", "a", "é", " ", "1", "a\n", "中", "\xCC\x81", "\r\n", "Aa1", "'s"}) {
      std::string text = repeated(unit, kLongRunBytes);
      on_small_stack([&] {
        SplitText split{{text, {}}, {{0, text.size()}}, true};
        for (const auto& step : rule->steps) step->apply(split);
        size_t end = 0;
        for (ByteRange piece : split.pieces) {
          ASSERT_EQ(piece.begin, end);
          end = piece.end;
        }
        EXPECT_EQ(end, split.text.text.size());
      });
    }
  }
}

}  // namespace
}  // namespace vernier
