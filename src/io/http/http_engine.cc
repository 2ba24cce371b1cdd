#include "io/http/http_engine.h"

#include <curl/curl.h>
#include <penstock/error.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "base/cancellation.h"
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

/// Between one answer and the next request, since a fast server leaves no other time for it.
void look_round() {
  if (cancel_requested()) throw IoError("cancelled while waiting for the network");
  poll_wait_hook();
}

/// The transfers of one run().
struct Run {
  size_t open = 0;  ///< not done and not given up
  std::exception_ptr error;
};

struct Task {
  Transfer* transfer = nullptr;
  Run* run = nullptr;
  int attempts = 0;
  int redirects = 0;
  Clock::time_point first_attempt;
  Clock::time_point not_before;
  std::unique_ptr<CurlEasy> easy;  ///< while it is under way
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
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    curl_multi_wakeup(multi_);
    thread_.join();
    idle_.clear();
    curl_multi_cleanup(multi_);
  }

  void run(std::span<Transfer* const> transfers) {
    if (transfers.empty()) return;
    look_round();
    Run run;
    run.open = transfers.size();
    std::unique_lock lock(mutex_);
    for (Transfer* const transfer : transfers) {
      Task task;
      task.transfer = transfer;
      task.run = &run;
      waiting_.push_back(std::move(task));
    }
    curl_multi_wakeup(multi_);
    const auto done = [&] { return run.open == 0; };
    std::exception_ptr stopped;
    while (!done_.wait_for(lock, kCancelInterval, done)) {
      if (stopped) continue;  // the engine gives the transfers up
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
    const std::lock_guard lock(mutex_);
    return counts_;
  }

 private:
  void loop() {
    std::unique_lock lock(mutex_);
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

  // Transfers whose run has failed: nothing is written to their sinks from here on.
  void give_up() {
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
      at = active_.erase(at);  // with its connection, which is in the middle of an answer
    }
    if (ended || before != waiting_.size()) done_.notify_all();
  }

  // Starts what may start; returns when the next that waits for its time may.
  Clock::time_point start() {
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

  void begin(Task& task) {
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

  bool collect() {
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

  // curl's own check of speed averages over some seconds, and only looks when something happens.
  bool give_up_stalled() {
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

  void settle(Task& task, const HttpResponse& response) {
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
          return fail(task, std::make_exception_ptr(IoError("redirected more than " +
                                                            std::to_string(kMaxRedirects) +
                                                            " times: " + task.transfer->place())));
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

  void retry(Task& task, const Verdict& verdict) {
    const double delay =
        std::max(back_off_seconds(task.attempts, random_),
                 std::min(verdict.after_seconds, options_.longest_retry_after_seconds));
    const auto now = Clock::now();
    const auto last = task.first_attempt + seconds(options_.retry_timeout_seconds);
    if (task.attempts >= options_.max_attempts || now + seconds(delay) > last) {
      const double took = std::chrono::duration<double>(now - task.first_attempt).count();
      return fail(task, std::make_exception_ptr(
                            IoError(verdict.reason + ", after " + std::to_string(task.attempts) +
                                    (task.attempts == 1 ? " attempt" : " attempts") + " in " +
                                    std::to_string(static_cast<int>(took + 0.5)) +
                                    " s: " + task.transfer->place())));
    }
    ++counts_.retries;
    task.redirects = 0;
    task.not_before = now + seconds(delay);
    waiting_.push_back(std::move(task));
  }

  void fail(Task& task, std::exception_ptr error) {
    if (!task.run->error) task.run->error = std::move(error);
    if (--task.run->open == 0) done_.notify_all();
  }

  const HttpOptions options_;
  CURLM* multi_ = nullptr;
  mutable std::mutex mutex_;
  std::condition_variable done_;
  std::deque<Task> waiting_;
  std::map<CURL*, Task> active_;
  std::vector<std::unique_ptr<CurlEasy>> idle_;
  uint64_t bytes_ = 0;  ///< asked for by active_
  RemoteCounts counts_;
  bool stop_ = false;
  std::mt19937_64 random_{std::random_device{}()};
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
  const std::lock_guard lock(fork_safe_lock());
  if (process_id_ != ::getpid()) {
    engine_ = new HttpEngine(options_);  // a parent's, with its threads gone, is left alone
    process_id_ = ::getpid();
  }
  return *engine_;
}

}  // namespace penstock::io
