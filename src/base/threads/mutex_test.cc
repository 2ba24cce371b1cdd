#include "base/threads/mutex.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

namespace penstock {
namespace {

struct Turns {
  Mutex mutex;
  ConditionVariable changed;
  int turn PENSTOCK_GUARDED_BY(mutex) = 0;

  void take(int mine) {
    const MutexLock lock(mutex);
    while (turn % 2 != mine) changed.wait(mutex);
    ++turn;
    changed.notify_all();
  }
};

TEST(Mutex, WaitsReleaseItAndHoldItAgain) {
  Turns turns;
  std::thread other([&] {
    for (int i = 0; i < 100; ++i) turns.take(1);
  });
  for (int i = 0; i < 100; ++i) turns.take(0);
  other.join();
  const MutexLock lock(turns.mutex);
  EXPECT_EQ(turns.turn, 200);
}

TEST(Mutex, AWaitEndsAtItsTime) {
  Turns turns;
  const auto time = std::chrono::steady_clock::now() + std::chrono::milliseconds(1);
  const MutexLock lock(turns.mutex);
  while (turns.changed.wait_until(turns.mutex, time)) {
  }
  EXPECT_GE(std::chrono::steady_clock::now(), time);
}

TEST(Mutex, IsHeldAgainAfterAnErrorWhileItWasFree) {
  Turns turns;
  const auto fail = [&] {
    const MutexLock lock(turns.mutex);
    const MutexUnlock unlocked(turns.mutex);
    std::thread([&] { turns.take(0); }).join();
    throw std::runtime_error("while it is free");
  };
  EXPECT_THROW(fail(), std::runtime_error);
  turns.take(1);  // waits for ever if the lock was left held
}

TEST(Mutex, ALockMayBeReleasedEarly) {
  Turns turns;
  MutexLock lock(turns.mutex);
  lock.unlock();
  turns.take(0);
  lock.lock();
  EXPECT_EQ(turns.turn, 1);
  lock.unlock();
  turns.take(1);
}

}  // namespace
}  // namespace penstock
