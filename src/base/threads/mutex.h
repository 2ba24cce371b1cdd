#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

// A mutex with annotations for clang's thread safety analysis: a member names the mutex that guards
// it, a function the mutex that its caller holds, and -Wthread-safety refuses code that does
// otherwise. libstdc++'s std::mutex has no annotations. Other compilers ignore them.
//
//   Mutex mutex_;
//   ConditionVariable changed_;
//   std::deque<Job> jobs_ PENSTOCK_GUARDED_BY(mutex_);
//   void start_next() PENSTOCK_REQUIRES(mutex_);
//
//   const MutexLock lock(mutex_);
//   while (jobs_.empty()) changed_.wait(mutex_);
//
// A wait is a loop: the analysis does not know which locks are held where a lambda is called.
// Everything here is inline and costs what the standard classes cost.
// Source: https://clang.llvm.org/docs/ThreadSafetyAnalysis.html

#if defined(__clang__)
#define PENSTOCK_THREAD_ANNOTATION(...) __attribute__((__VA_ARGS__))
#else
#define PENSTOCK_THREAD_ANNOTATION(...)
#endif

/// For a member or global variable: read and written only while the mutex is held.
#define PENSTOCK_GUARDED_BY(...) PENSTOCK_THREAD_ANNOTATION(guarded_by(__VA_ARGS__))
/// For a function: the caller holds the mutex.
#define PENSTOCK_REQUIRES(...) PENSTOCK_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
/// For a function that locks the mutex: the caller does not hold it.
#define PENSTOCK_EXCLUDES(...) PENSTOCK_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
/// For a function that acquires, or releases, the mutex.
#define PENSTOCK_ACQUIRE(...) PENSTOCK_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define PENSTOCK_RELEASE(...) PENSTOCK_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
/// For a correct function that the analysis cannot follow. A comment beside it says why it is
/// correct.
#define PENSTOCK_NO_THREAD_SAFETY_ANALYSIS PENSTOCK_THREAD_ANNOTATION(no_thread_safety_analysis)

namespace penstock {

class PENSTOCK_THREAD_ANNOTATION(capability("mutex")) Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() PENSTOCK_ACQUIRE() { native_.lock(); }
  void unlock() PENSTOCK_RELEASE() { native_.unlock(); }

 private:
  friend class ConditionVariable;
  std::mutex native_;
};

/// Holds a mutex until the end of its scope, except between unlock() and lock().
class PENSTOCK_THREAD_ANNOTATION(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) PENSTOCK_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() PENSTOCK_RELEASE() {
    if (held_) mutex_.unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void unlock() PENSTOCK_RELEASE() {
    held_ = false;
    mutex_.unlock();
  }
  void lock() PENSTOCK_ACQUIRE() {
    mutex_.lock();
    held_ = true;
  }

 private:
  Mutex& mutex_;
  bool held_ = true;
};

/// The opposite: a mutex that the caller holds is free until the end of the scope, also where an
/// exception ends it.
class PENSTOCK_THREAD_ANNOTATION(scoped_lockable) MutexUnlock {
 public:
  explicit MutexUnlock(Mutex& mutex) PENSTOCK_RELEASE(mutex) : mutex_(mutex) { mutex_.unlock(); }
  ~MutexUnlock() PENSTOCK_RELEASE() { mutex_.lock(); }
  MutexUnlock(const MutexUnlock&) = delete;
  MutexUnlock& operator=(const MutexUnlock&) = delete;

 private:
  Mutex& mutex_;
};

/// Waits release the mutex and hold it again when they return. They may return for no reason.
class ConditionVariable {
 public:
  void notify_one() noexcept { native_.notify_one(); }
  void notify_all() noexcept { native_.notify_all(); }

  void wait(Mutex& mutex) PENSTOCK_REQUIRES(mutex) {
    std::unique_lock lock(mutex.native_, std::adopt_lock);
    native_.wait(lock);
    lock.release();  // the caller's
  }
  /// False when the time came first.
  bool wait_until(Mutex& mutex, std::chrono::steady_clock::time_point time)
      PENSTOCK_REQUIRES(mutex) {
    std::unique_lock lock(mutex.native_, std::adopt_lock);
    const bool woken = native_.wait_until(lock, time) == std::cv_status::no_timeout;
    lock.release();
    return woken;
  }

 private:
  std::condition_variable native_;
};

}  // namespace penstock
