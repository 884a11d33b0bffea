#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <thread>

#include "unit/api/script_engine.h"

namespace vernier {
namespace {

using ::testing::HasSubstr;
using testing::open_script;

// Long: some seconds, unless it is cancelled.
constexpr const char* kScript = R"({"tokenizer": "t", "format": "plain", "replies": [
  {"match": "[three]", "pieces": ["one", " two", " three"]},
  {"match": "[long]", "delay_ms": 50, "pieces": ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n",
    "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "a", "b", "c", "d", "e", "f", "g", "h", "i",
    "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "a", "b", "c", "d", "e", "f", "g", "h", "i"]},
  {"match": "", "pieces": ["ok"]}]})";
constexpr int64_t kMinuteMs = 60'000;

Request ask(std::string text) {
  return Request::chat({{"user", std::move(text)}});
}

/// Opens once; a waiter gives up after a minute.
class Latch {
 public:
  void open() {
    std::lock_guard lock(mutex_);
    is_open_ = true;
    opened_.notify_all();
  }
  bool wait() {
    std::unique_lock lock(mutex_);
    return opened_.wait_for(lock, std::chrono::minutes(1), [this] { return is_open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool is_open_ = false;
};

// API-5: the engine and its other requests go on while a callback takes its time, and all callbacks are on one thread.
TEST(Callbacks, RunWhereTheEngineDoesNotWaitForThem) {
  Engine engine = open_script(kScript);
  Latch release;
  std::set<std::thread::id> threads;
  auto slow = engine.submit(ask("[three]"), [&](const Update&) {
    threads.insert(std::this_thread::get_id());
    EXPECT_TRUE(release.wait());
  });
  ASSERT_TRUE(slow.ok());
  EXPECT_EQ(engine.generate(ask("[three]"))->text, "one two three");
  EXPECT_FALSE(slow->wait(0).ok());
  EXPECT_EQ(slow->wait(0).error().code, ErrorCode::kTimeout);
  release.open();
  EXPECT_EQ(slow->wait(kMinuteMs)->text, "one two three");
  ASSERT_TRUE(engine.generate(ask("x"), [&](const Update&) { threads.insert(std::this_thread::get_id()); }).ok());
  EXPECT_EQ(threads.size(), 1U);
  EXPECT_FALSE(threads.contains(std::this_thread::get_id()));
}

// API-6: who waited may take down what the callback uses.
TEST(Callbacks, HaveReturnedWhenTheWaitDoes) {
  Engine engine = open_script(kScript);
  bool returned = false;
  auto answer = engine.generate(ask("x"), [&](const Update& update) {
    if (!update.last) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    returned = true;
  });
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  EXPECT_TRUE(returned);
}

TEST(Callbacks, MayCancelTheirRequest) {
  Engine engine = open_script(kScript);
  auto answer = engine.generate(ask("[long]"), [](const Update& update) {
    if (!update.tokens.empty()) update.cancel();
  });
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  EXPECT_EQ(answer->finish, Finish::kCancelled);
  EXPECT_FALSE(answer->text.empty());
  EXPECT_LT(answer->tokens.size(), 30U);
  auto other = engine.submit(ask("[long]"));
  other->cancel();
  EXPECT_EQ(other->wait(kMinuteMs)->finish, Finish::kCancelled);
}

TEST(Callbacks, MaySubmit) {
  Latch done;
  std::atomic<int> depth = 0;
  Engine engine = open_script(kScript);
  OnUpdate chain = [&](const Update& update) {
    if (!update.last) return;
    if (++depth == 5) return done.open();
    EXPECT_TRUE(engine.submit(ask("next"), chain).ok());
  };
  ASSERT_TRUE(engine.submit(ask("first"), chain).ok());
  EXPECT_TRUE(done.wait());
}

TEST(Callbacks, MustNotWait) {
  Engine engine = open_script(kScript);
  std::optional<Error> refused;
  ASSERT_TRUE(engine
                  .generate(ask("x"),
                            [&](const Update& update) {
                              if (update.last) refused = engine.generate(ask("y")).error();
                            })
                  .ok());
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused->message, HasSubstr("callback"));
}

// API-7: what a callback throws ends its request, and nothing else.
TEST(Callbacks, ThatThrowEndTheirRequest) {
  Engine engine = open_script(kScript);
  auto answer = engine.generate(ask("[long]"), [](const Update&) { throw std::runtime_error("no paper"); });
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code, ErrorCode::kInternal);
  EXPECT_THAT(answer.error().message, HasSubstr("no paper"));
  EXPECT_TRUE(engine.generate(ask("x")).ok());
}

TEST(Requests, OfManyThreadsGetTheirOwnAnswers) {
  Engine engine = open_script(kScript);
  std::atomic<int> last_updates = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      std::vector<RunningRequest> running;
      for (int i = 0; i < 12; ++i) {
        auto request = engine.submit(ask((t + i) % 2 == 0 ? "[three]" : "x"),
                                     [&](const Update& update) { last_updates += update.last ? 1 : 0; });
        ASSERT_TRUE(request.ok()) << request.error().message;
        running.push_back(std::move(*request));
      }
      for (int i = 0; i < 12; ++i) {
        auto answer = running[static_cast<size_t>(i)].wait(kMinuteMs);
        ASSERT_TRUE(answer.ok()) << answer.error().message;
        EXPECT_EQ(answer->text, (t + i) % 2 == 0 ? "one two three" : "ok");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(last_updates, 96);
}

TEST(Requests, BeyondTheQueueAreRefused) {
  Engine engine = open_script(kScript, 1);
  auto first = engine.submit(ask("[long]"));
  auto second = engine.submit(ask("[long]"));
  auto third = engine.submit(ask("[long]"), [](const Update&) { FAIL() << "a refused request has no updates"; });
  ASSERT_FALSE(third.ok());
  EXPECT_EQ(third.error().code, ErrorCode::kOverloaded);
}

TEST(Requests, ThatNobodyCanHearOfAreCancelled) {
  Latch heard;
  Engine engine = open_script(kScript);
  { auto forgotten = engine.submit(ask("[long]")); }
  EXPECT_TRUE(engine.generate(ask("x")).ok());
  for (int i = 0; i < 600 && engine.stats()->cancelled == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(engine.stats()->cancelled, 1);

  {
    auto kept = engine.submit(ask("[three]"), [&](const Update& update) {
      if (update.last) heard.open();
    });
  }
  EXPECT_TRUE(heard.wait());
}

// API-6: each request gets its one last update, and once the engine is gone no callback runs.
// API-8: what is left of a request answers without its engine.
TEST(Engines, MayEndWhileRequestsRun) {
  auto engine = std::make_optional(open_script(kScript));
  std::atomic<int> last_updates = 0;
  std::atomic<bool> gone = false;
  std::vector<RunningRequest> running;
  for (int i = 0; i < 20; ++i) {
    auto request = engine->submit(ask(i % 3 == 0 ? "[three]" : "[long]"), [&](const Update& update) {
      EXPECT_FALSE(gone);
      last_updates += update.last ? 1 : 0;
    });
    running.push_back(std::move(*request));
  }
  running.push_back(std::move(*engine->submit(ask("[long]"))));
  engine.reset();
  gone = true;
  EXPECT_EQ(last_updates, 20);
  for (RunningRequest& request : running) {
    auto answer = request.wait(0);
    ASSERT_TRUE(answer.ok()) << answer.error().message;
    request.cancel();
  }
  EXPECT_EQ(running[1].wait()->finish, Finish::kCancelled);
  EXPECT_EQ(running.back().wait()->finish, Finish::kCancelled);
}

// API-5: the last owner of an engine may be one of its own callbacks; what the others ask of it then is refused.
TEST(Engines, MayEndInACallback) {
  for (int round = 0; round < 20; ++round) {
    vernier_engine* handle = testing::open_script_handle(kScript, 64);
    std::optional<Engine> engine(Engine::adopt(handle));
    std::atomic<bool> closed = false;
    vernier_status late = VERNIER_OK;
    OnUpdate other = [&](const Update& update) {
      if (!update.last) return;
      EXPECT_TRUE(closed);
      vernier_engine_info info{};
      info.struct_size = sizeof info;
      late = vernier_engine_get_info(handle, &info);
    };
    OnUpdate closing = [&](const Update&) {
      if (!closed.exchange(true)) engine.reset();
    };
    auto long_one = engine->submit(ask("[long]"), other);
    auto short_one = engine->submit(ask("[three]"), closing);
    ASSERT_TRUE(long_one.ok() && short_one.ok());
    EXPECT_EQ(long_one->wait(kMinuteMs)->finish, Finish::kCancelled);
    EXPECT_TRUE(short_one->wait(kMinuteMs).ok());
    EXPECT_EQ(late, VERNIER_UNAVAILABLE);
  }
}

TEST(Engines, ThatAreBeingClosedRefuseTheirCallbacks) {
  std::optional<Error> late;
  {
    Engine engine = open_script(kScript);
    ASSERT_TRUE(engine
                    .submit(ask("[long]"),
                            [&](const Update& update) {
                              if (update.last) late = engine.submit(ask("x")).error();
                            })
                    .ok());
  }
  ASSERT_TRUE(late.has_value());
  EXPECT_EQ(late->code, ErrorCode::kUnavailable);
}

TEST(Log, ReachesTheSinkOnAThreadOfItsOwn) {
  std::mutex mutex;
  std::vector<std::string> lines;
  std::thread::id thread;
  set_log(LogLevel::kWarning, [&](LogLevel level, std::string_view line) {
    std::lock_guard lock(mutex);
    EXPECT_EQ(level, LogLevel::kWarning);
    lines.emplace_back(line);
    thread = std::this_thread::get_id();
  });
  testing::log_a_warning("paper low");
  testing::log_a_warning("paper out");
  set_log(LogLevel::kWarning);
  testing::log_a_warning("after: on standard error");
  EXPECT_THAT(lines, ::testing::ElementsAre("paper low", "paper out"));
  EXPECT_NE(thread, std::this_thread::get_id());
}

TEST(Log, MayBeReplacedByItsSink) {
  Latch replaced;
  auto alive = std::make_shared<int>(0);
  std::weak_ptr<int> watch = alive;
  set_log(LogLevel::kWarning, [&, alive](LogLevel, std::string_view) {
    set_log(LogLevel::kWarning);
    replaced.open();
  });
  alive.reset();
  testing::log_a_warning("once");
  EXPECT_TRUE(replaced.wait());
  for (int i = 0; i < 1000 && !watch.expired(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(watch.expired());
}

}  // namespace
}  // namespace vernier
