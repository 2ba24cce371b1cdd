#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <random>
#include <span>
#include <string>

#include "base/threads/mutex.h"
#include "io/http/http_message.h"
#include "io/remote/fork_safe_lock.h"
#include "io/remote/object_source.h"

// Runs many HTTP(S) transfers at once over reused connections. The owner of a transfer judges each
// attempt; attempts are repeated with back-off if that may help.
//
//   engine.run(transfers)     blocks until all are done; throws the first error and abandons the
//                             others; ends within a tenth of a second of cancel_requested()
//
// An engine has one thread with one curl multi handle. It belongs to the process that made it:
// HttpEnginePerProcess makes another one in a forked child. Proxies come from the environment
// (http_proxy, https_proxy, no_proxy); certificates.h finds the trusted certificates.

namespace penstock::io {

struct HttpOptions {
  size_t max_requests = 64;
  uint64_t max_bytes_in_flight = uint64_t{256} << 20;  ///< requested by running transfers
  double connect_timeout_seconds = 10;
  double stall_timeout_seconds = 20;  ///< a transfer is stopped if it stalls for so long
  double retry_timeout_seconds = 60;  ///< no attempt starts later than this after the first
  int max_attempts = 8;
  double longest_retry_after_seconds = 30;
};

/// Random delay after this many attempts, up to a ceiling. The ceiling is 0.1 s after the first
/// attempt, doubles with each, and is at most 10 s. Random delays keep clients that failed together
/// from retrying together.
double back_off_seconds(int attempts, std::mt19937_64& random);

/// What to do after an attempt.
struct Verdict {
  enum class Kind : uint8_t {
    kDone,
    kRetry,  ///< after a delay
    kAgain,  ///< at once: prepare() will return another request (a redirect)
    kFail,
  };
  Kind kind = Kind::kDone;
  std::string reason;          ///< kRetry: for the message when no attempt is left
  double after_seconds = 0;    ///< kRetry: least delay
  std::exception_ptr error{};  ///< kFail
};

/// A request, and the judge of its responses. The engine's thread calls it, one call at a time; its
/// methods must not block.
class Transfer {
 public:
  explicit Transfer(std::span<std::byte> sink = {}) : sink_(sink) {}
  virtual ~Transfer() = default;

  virtual HttpRequest prepare() = 0;
  virtual Verdict judge(const HttpResponse& response) = 0;
  /// For messages: "GET s3://bucket/key, bytes 0 to 99".
  virtual std::string place() const = 0;

  /// Receives the body of a 2xx response; if empty, the body is kept as text.
  std::span<std::byte> sink() const noexcept { return sink_; }

 private:
  std::span<std::byte> sink_;
};

class HttpEngine {
 public:
  explicit HttpEngine(const HttpOptions& options);
  ~HttpEngine();
  HttpEngine(const HttpEngine&) = delete;
  HttpEngine& operator=(const HttpEngine&) = delete;

  void run(std::span<Transfer* const> transfers);
  void run(Transfer& transfer) {
    Transfer* const one = &transfer;
    run({&one, 1});
  }
  RemoteCounts counts() const;

  class Loop;

 private:
  std::unique_ptr<Loop> loop_;
};

/// One engine for each process. A child never uses its parent's.
class HttpEnginePerProcess {
 public:
  explicit HttpEnginePerProcess(HttpOptions options) : options_(options) {}
  ~HttpEnginePerProcess();
  HttpEnginePerProcess(const HttpEnginePerProcess&) = delete;
  HttpEnginePerProcess& operator=(const HttpEnginePerProcess&) = delete;

  HttpEngine& get() const;
  const HttpOptions& options() const noexcept { return options_; }

 private:
  const HttpOptions options_;
  mutable int process_id_ PENSTOCK_GUARDED_BY(fork_safe_lock()) = 0;
  /// Of process_id_.
  mutable HttpEngine* engine_ PENSTOCK_GUARDED_BY(fork_safe_lock()) = nullptr;
};

}  // namespace penstock::io
