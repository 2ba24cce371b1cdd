#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <random>
#include <span>
#include <string>

#include "io/http/http_message.h"
#include "io/remote/object_source.h"

// Transfers over HTTP(S): many at once over reused connections, each attempt judged by its owner
// and repeated with back-off where that may help.
//
//   engine.run(transfers)     blocks until all are done; throws the first error, the others are
//                             given up; ends within a tenth of a second of cancel_requested()
//
// One thread with one curl multi handle belongs to the engine and starts with the first run(). An
// engine belongs to the process that made it: engine_of() makes another one in a forked child.
// Proxies come from the environment (http_proxy, https_proxy, no_proxy); certificates.h says which
// certificates are trusted.

namespace penstock::io {

struct HttpOptions {
  size_t max_requests = 64;
  uint64_t max_bytes_in_flight = uint64_t{256} << 20;  ///< that transfers under way have asked for
  double connect_timeout_seconds = 10;
  double stall_timeout_seconds = 20;  ///< below 500 bytes a second for so long: given up
  double retry_timeout_seconds = 60;  ///< no attempt begins later than this after the first
  int max_attempts = 8;
  double longest_retry_after_seconds = 30;
};

/// How long to wait after so many attempts: anything up to a ceiling, which is 0.1 s after the
/// first attempt, doubles with each and ends at 10 s, so that clients that failed together do not
/// come again together.
double back_off_seconds(int attempts, std::mt19937_64& random);

/// What becomes of an attempt.
struct Verdict {
  enum class Kind : uint8_t {
    kDone,
    kRetry,  ///< after a while
    kAgain,  ///< at once: prepare() will ask for something else (a redirect)
    kFail,
  };
  Kind kind = Kind::kDone;
  std::string reason;          ///< of kRetry, for the message when no attempt is left
  double after_seconds = 0;    ///< of kRetry: not earlier
  std::exception_ptr error{};  ///< of kFail
};

/// A request and who judges its answers. Called by the engine's thread, one call at a time; must
/// not block.
class Transfer {
 public:
  explicit Transfer(std::span<std::byte> sink = {}) : sink_(sink) {}
  virtual ~Transfer() = default;

  virtual HttpRequest prepare() = 0;
  virtual Verdict judge(const HttpResponse& response) = 0;
  /// For messages: "GET s3://bucket/key, bytes 0 to 99".
  virtual std::string place() const = 0;

  /// Where the body of a 2xx answer goes; without one it is kept as text.
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

/// An engine for whichever process asks. A child never touches its parent's.
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
  mutable int process_id_ = 0;
  mutable HttpEngine* engine_ = nullptr;  // of process_id_; guarded by a lock that forks hold
};

}  // namespace penstock::io
