#include "base/threads/parallel.h"

#include <gtest/gtest.h>
#include <penstock/error.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace penstock {
namespace {

TEST(ParallelFor, EachItemOnce) {
  for (const unsigned threads : {0U, 1U, 3U, 8U}) {
    for (const size_t count : {0U, 1U, 2U, 1000U}) {
      std::vector<std::atomic<int>> seen(count);
      parallel_for(count, threads, [&](size_t i) { ++seen[i]; });
      for (const auto& times : seen) EXPECT_EQ(times, 1);
    }
  }
}

TEST(ParallelFor, TheErrorComesBackAndStopsTheRest) {
  for (const unsigned threads : {1U, 4U}) {
    std::atomic<size_t> begun{0};
    // Items after the failing one take a millisecond, so that the rest cannot finish before the
    // error is seen, however late its thread is scheduled.
    const auto run = [&] {
      parallel_for(1'000'000, threads, [&](size_t i) {
        ++begun;
        if (i == 10) throw CorruptData("item 10");
        if (i > 10) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      });
    };
    EXPECT_THROW(run(), CorruptData);
    EXPECT_LT(begun, 1'000'000U);
  }
}

/// Sets a wait hook for the duration of a test.
class WaitHook {
 public:
  explicit WaitHook(std::function<void()> hook) { set_wait_hook(std::move(hook)); }
  ~WaitHook() { set_wait_hook(nullptr); }
};

TEST(ParallelFor, TheWaitHookLooksBetweenItemsOfTheCaller) {
  const auto caller = std::this_thread::get_id();
  for (const unsigned threads : {1U, 4U}) {
    std::atomic<int> looks{0};
    const WaitHook hook([&] {
      EXPECT_EQ(std::this_thread::get_id(), caller);
      if (++looks == 2) throw IoError("interrupted");
    });
    std::atomic<size_t> begun{0};
    const auto run = [&] {
      parallel_for(100'000, threads, [&](size_t) {
        ++begun;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      });
    };
    EXPECT_THROW(run(), IoError);
    EXPECT_EQ(looks, 2);
    EXPECT_LT(begun, 100'000U);
  }
}

TEST(ParallelFor, AThreadWithAFlagIsNotTheCallers) {
  const std::atomic<bool> flag{false};
  const CancelScope scope(&flag);
  const WaitHook hook([] { throw IoError("interrupted"); });
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  EXPECT_NO_THROW(parallel_for(
      80, 1, [](size_t) { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }));
}

/// Waits as for a network: until the thread is cancelled.
void wait_until_cancelled() {
  while (!cancel_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  throw IoError("cancelled");
}

TEST(ParallelFor, AnInterruptEndsTheWaitsOfItsThreads) {
  const auto caller = std::this_thread::get_id();
  std::atomic<int> waiting{0};
  const WaitHook hook([&] {
    if (waiting == 3) throw NotFound("interrupted");
  });
  EXPECT_THROW(parallel_for(4, 4,
                            [&](size_t) {
                              if (std::this_thread::get_id() != caller) {
                                ++waiting;
                                wait_until_cancelled();
                              }
                              while (waiting != 3) std::this_thread::yield();
                            }),
               NotFound);
  EXPECT_EQ(waiting, 3);
}

TEST(ParallelFor, AnErrorEndsTheWaitsOfThreadsBelow) {
  const auto caller = std::this_thread::get_id();
  std::atomic<int> waiting{0};
  const auto inner = [&](size_t) {
    ++waiting;
    wait_until_cancelled();
  };
  EXPECT_THROW(parallel_for(2, 2,
                            [&](size_t) {
                              if (std::this_thread::get_id() != caller) {
                                parallel_for(3, 3, inner);
                                return;
                              }
                              while (waiting != 3) std::this_thread::yield();
                              throw NotFound("the caller's");
                            }),
               NotFound);
  EXPECT_EQ(waiting, 3);
}

TEST(ParallelFor, AFlagOfTheCallerIsOneOfItsThreads) {
  const std::atomic<bool> flag{true};
  const CancelScope scope(&flag);
  std::atomic<int> seen{0};
  parallel_for(4, 4, [&](size_t) {
    ++seen;
    while (seen != 4) std::this_thread::yield();
    EXPECT_TRUE(cancel_requested());
  });
  EXPECT_EQ(seen, 4);
}

}  // namespace
}  // namespace penstock
