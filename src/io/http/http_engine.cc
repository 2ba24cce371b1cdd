#include "io/http/http_engine.h"

#include <curl/curl.h>
#include <penstock/error.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <list>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "base/concat.h"
#include "base/threads/cancellation.h"
#include "base/threads/mutex.h"
#include "io/http/curl_easy.h"
#include "io/remote/fork_safe_lock.h"

namespace penstock::io {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kFirstDelaySeconds = 0.1;
constexpr double kLongestDelaySeconds = 10;
constexpr int kMaxRedirects = 5;
constexpr auto kCancelInterval = std::chrono::milliseconds(50);

Clock::duration seconds(double count) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(count));
}

/// Called between requests: with a fast server there is no other time to check.
void check_cancelled() {
  if (cancel_requested()) throw IoError("cancelled while waiting for the network");
  poll_wait_hook();
}

/// The transfers of one run().
struct Run {
  size_t open = 0;  ///< neither done nor abandoned
  std::exception_ptr error;
};

struct Task {
  Transfer* transfer = nullptr;
  Run* run = nullptr;
  int attempts = 0;
  int redirects = 0;
  Clock::time_point first_attempt;
  Clock::time_point not_before;
  std::unique_ptr<CurlEasy> easy;  ///< while it is running
};

}  // namespace

double back_off_seconds(int attempts, std::mt19937_64& random) {
  const double doubled = kFirstDelaySeconds * static_cast<double>(1 << std::min(attempts - 1, 10));
  const double ceiling = std::min(kLongestDelaySeconds, doubled);
  return std::uniform_real_distribution<double>(0, ceiling)(random);
}

class HttpEngine::Loop {
 public:
  explicit Loop(const HttpOptions& options) : options_(options) {
    init_curl();
    multi_ = curl_multi_init();
    if (multi_ == nullptr) throw ResourceExhausted("cannot make a curl multi handle");
    const auto most = static_cast<long>(options.max_requests);
    curl_multi_setopt(multi_, CURLMOPT_MAX_TOTAL_CONNECTIONS, most);
    curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, most);
    curl_multi_setopt(multi_, CURLMOPT_PIPELINING, static_cast<long>(CURLPIPE_NOTHING));
    try {
      thread_ = std::thread([this] { loop(); });
    } catch (const std::system_error& error) {
      curl_multi_cleanup(multi_);
      throw ResourceExhausted("cannot start a thread for HTTP: " + std::string(error.what()));
    }
  }

  ~Loop() {
    {
      const MutexLock lock(mutex_);
      stop_ = true;
    }
    curl_multi_wakeup(multi_);
    thread_.join();
    idle_.clear();
    curl_multi_cleanup(multi_);
  }

  void run(std::span<Transfer* const> transfers) {
    if (transfers.empty()) return;
    check_cancelled();
    Run run;
    run.open = transfers.size();
    MutexLock lock(mutex_);
    for (Transfer* const transfer : transfers) {
      Task task;
      task.transfer = transfer;
      task.run = &run;
      waiting_.push_back(std::move(task));
    }
    curl_multi_wakeup(multi_);
    std::exception_ptr stopped;
    while (!wait_for_end(run)) {
      if (stopped) continue;  // the engine abandons the transfers
      if (!cancel_requested()) {
        lock.unlock();
        try {
          run_wait_hook();
        } catch (...) {
          stopped = std::current_exception();
        }
        lock.lock();
        if (!stopped) continue;
      } else {
        stopped = std::make_exception_ptr(IoError("cancelled while waiting for the network"));
      }
      if (!run.error) run.error = stopped;
      curl_multi_wakeup(multi_);
    }
    lock.unlock();
    if (stopped) std::rethrow_exception(stopped);
    if (run.error) std::rethrow_exception(run.error);
  }

  RemoteCounts counts() const {
    const MutexLock lock(mutex_);
    return counts_;
  }

 private:
  /// False if the run has not ended after an interval.
  bool wait_for_end(const Run& run) PENSTOCK_REQUIRES(mutex_) {
    const auto interval_end = Clock::now() + kCancelInterval;
    while (run.open != 0 && done_.wait_until(mutex_, interval_end)) {
    }
    return run.open == 0;
  }

  void loop() {
    MutexLock lock(mutex_);
    while (!stop_) {
      give_up();
      const auto next = start();
      lock.unlock();
      int running = 0;
      curl_multi_perform(multi_, &running);
      lock.lock();
      if (collect() || give_up_stalled()) continue;
      lock.unlock();
      const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(next - Clock::now());
      curl_multi_poll(multi_, nullptr, 0,
                      static_cast<int>(std::clamp<int64_t>(wait.count() + 1, 1, 1000)), nullptr);
      lock.lock();
    }
    for (auto& [handle, task] : active_) curl_multi_remove_handle(multi_, handle);
    active_.clear();
  }

  // Abandons transfers whose run has failed: their sinks are not written from here on.
  void give_up() PENSTOCK_REQUIRES(mutex_) {
    const size_t before = waiting_.size();
    bool ended = false;
    std::erase_if(waiting_, [&](Task& task) {
      if (!task.run->error) return false;
      ended |= --task.run->open == 0;
      return true;
    });
    for (auto at = active_.begin(); at != active_.end();) {
      if (!at->second.run->error) {
        ++at;
        continue;
      }
      curl_multi_remove_handle(multi_, at->first);
      bytes_ -= at->second.transfer->sink().size();
      ended |= --at->second.run->open == 0;
      at = active_.erase(at);  // also its connection, which is in the middle of a response
    }
    if (ended || before != waiting_.size()) done_.notify_all();
  }

  // Starts the transfers that may start. Returns when the next delayed one may start.
  Clock::time_point start() PENSTOCK_REQUIRES(mutex_) {
    const auto now = Clock::now();
    auto next = now + std::chrono::seconds(1);
    for (auto at = waiting_.begin(); at != waiting_.end();) {
      if (active_.size() >= options_.max_requests) break;
      if (at->not_before > now) {
        next = std::min(next, at->not_before);
        ++at;
        continue;
      }
      const uint64_t size = at->transfer->sink().size();
      if (!active_.empty() && bytes_ + size > options_.max_bytes_in_flight) break;
      Task task = std::move(*at);
      at = waiting_.erase(at);
      if (task.attempts == 0 && task.redirects == 0) task.first_attempt = now;
      try {
        begin(task);
      } catch (...) {
        fail(task, std::current_exception());
        return now;
      }
    }
    return next;
  }

  void begin(Task& task) PENSTOCK_REQUIRES(mutex_) {
    if (idle_.empty()) {
      task.easy = std::make_unique<CurlEasy>();
    } else {
      task.easy = std::move(idle_.back());
      idle_.pop_back();
    }
    task.easy->set(task.transfer->prepare(), task.transfer->sink(), options_);
    ++task.attempts;
    ++counts_.requests;
    CURL* const handle = task.easy->handle();
    if (curl_multi_add_handle(multi_, handle) != CURLM_OK) {
      throw Internal("curl does not take a transfer");
    }
    bytes_ += task.transfer->sink().size();
    active_.emplace(handle, std::move(task));
  }

  bool collect() PENSTOCK_REQUIRES(mutex_) {
    bool any = false;
    int left = 0;
    while (const CURLMsg* const message = curl_multi_info_read(multi_, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      const auto found = active_.find(message->easy_handle);
      const CURLcode code = message->data.result;
      if (found == active_.end()) continue;
      any = true;
      Task task = std::move(found->second);
      curl_multi_remove_handle(multi_, found->first);
      active_.erase(found);
      bytes_ -= task.transfer->sink().size();
      const HttpResponse response = task.easy->finish(code);
      counts_.bytes += response.body_bytes;
      idle_.push_back(std::move(task.easy));
      settle(task, response);
    }
    return any;
  }

  // curl's own speed check averages over some seconds and runs only when something happens.
  bool give_up_stalled() PENSTOCK_REQUIRES(mutex_) {
    const auto limit = Clock::now() - seconds(options_.stall_timeout_seconds);
    for (auto at = active_.begin(); at != active_.end(); ++at) {
      if (at->second.easy->last_progress() > limit) continue;
      Task task = std::move(at->second);
      curl_multi_remove_handle(multi_, at->first);
      active_.erase(at);
      bytes_ -= task.transfer->sink().size();
      const HttpResponse response = task.easy->give_up();
      task.easy.reset();
      settle(task, response);
      return true;
    }
    return false;
  }

  void settle(Task& task, const HttpResponse& response) PENSTOCK_REQUIRES(mutex_) {
    Verdict verdict;
    try {
      verdict = task.transfer->judge(response);
    } catch (...) {
      verdict = {Verdict::Kind::kFail, "", 0, std::current_exception()};
    }
    if (task.run->error) verdict = {Verdict::Kind::kFail, "", 0, task.run->error};
    switch (verdict.kind) {
      case Verdict::Kind::kDone:
        if (--task.run->open == 0) done_.notify_all();
        return;
      case Verdict::Kind::kAgain:
        if (++task.redirects > kMaxRedirects) {
          return fail(task,
                      std::make_exception_ptr(IoError(concat("redirected more than ", kMaxRedirects,
                                                             " times: ", task.transfer->place()))));
        }
        --task.attempts;
        waiting_.push_front(std::move(task));
        return;
      case Verdict::Kind::kRetry:
        return retry(task, verdict);
      case Verdict::Kind::kFail:
        return fail(task, verdict.error);
    }
  }

  void retry(Task& task, const Verdict& verdict) PENSTOCK_REQUIRES(mutex_) {
    const double delay =
        std::max(back_off_seconds(task.attempts, random_),
                 std::min(verdict.after_seconds, options_.longest_retry_after_seconds));
    const auto now = Clock::now();
    const auto last = task.first_attempt + seconds(options_.retry_timeout_seconds);
    if (task.attempts >= options_.max_attempts || now + seconds(delay) > last) {
      const double took = std::chrono::duration<double>(now - task.first_attempt).count();
      return fail(task, std::make_exception_ptr(IoError(
                            concat(verdict.reason, ", after ", task.attempts,
                                   (task.attempts == 1 ? " attempt" : " attempts"), " in ",
                                   static_cast<int>(took + 0.5), " s: ", task.transfer->place()))));
    }
    ++counts_.retries;
    task.redirects = 0;
    task.not_before = now + seconds(delay);
    waiting_.push_back(std::move(task));
  }

  void fail(Task& task, std::exception_ptr error) PENSTOCK_REQUIRES(mutex_) {
    if (!task.run->error) task.run->error = std::move(error);
    if (--task.run->open == 0) done_.notify_all();
  }

  const HttpOptions options_;
  CURLM* multi_ = nullptr;
  mutable Mutex mutex_;
  ConditionVariable done_;
  std::deque<Task> waiting_ PENSTOCK_GUARDED_BY(mutex_);
  std::map<CURL*, Task> active_ PENSTOCK_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<CurlEasy>> idle_ PENSTOCK_GUARDED_BY(mutex_);
  uint64_t bytes_ PENSTOCK_GUARDED_BY(mutex_) = 0;  ///< requested by active_
  RemoteCounts counts_ PENSTOCK_GUARDED_BY(mutex_);
  bool stop_ PENSTOCK_GUARDED_BY(mutex_) = false;
  std::mt19937_64 random_ PENSTOCK_GUARDED_BY(mutex_){std::random_device{}()};
  std::thread thread_;
};

HttpEngine::HttpEngine(const HttpOptions& options) : loop_(std::make_unique<Loop>(options)) {}
HttpEngine::~HttpEngine() = default;
void HttpEngine::run(std::span<Transfer* const> transfers) { loop_->run(transfers); }
RemoteCounts HttpEngine::counts() const { return loop_->counts(); }

HttpEnginePerProcess::~HttpEnginePerProcess() {
  if (process_id_ == ::getpid()) delete engine_;
}

HttpEngine& HttpEnginePerProcess::get() const {
  const MutexLock lock(fork_safe_lock());
  if (process_id_ != ::getpid()) {
    engine_ = new HttpEngine(options_);  // a parent's engine has no threads here, so it is leaked
    process_id_ = ::getpid();
  }
  return *engine_;
}

}  // namespace penstock::io
