#pragma once

#include <curl/curl.h>

#include <chrono>
#include <span>
#include <string>

#include "io/http/http_engine.h"
#include "io/http/http_message.h"

// One attempt of a transfer as a curl easy handle: set up from a request, its answer collected.
// Used by the engine's thread alone; the handle is used again for the next attempt.

namespace penstock::io {

/// curl_global_init, once a process.
void init_curl();

class CurlEasy {
 public:
  CurlEasy();
  ~CurlEasy();
  CurlEasy(const CurlEasy&) = delete;
  CurlEasy& operator=(const CurlEasy&) = delete;

  void set(const HttpRequest& request, std::span<std::byte> sink, const HttpOptions& options);
  /// The answer, after curl said how the transfer ended.
  HttpResponse finish(CURLcode code);
  /// The answer of a transfer that brought nothing for too long and was taken from curl.
  HttpResponse give_up();
  /// When it was set, or the last bytes came.
  std::chrono::steady_clock::time_point last_progress() const noexcept { return last_progress_; }
  CURL* handle() const noexcept { return handle_; }

 private:
  static size_t on_header(char* data, size_t size, size_t count, void* self);
  static size_t on_body(char* data, size_t size, size_t count, void* self);

  CURL* handle_;
  curl_slist* headers_ = nullptr;
  char error_[CURL_ERROR_SIZE] = {};
  std::span<std::byte> sink_;
  size_t max_text_bytes_ = kMaxTextBytes;
  HttpResponse response_;
  std::chrono::steady_clock::time_point last_progress_;
};

}  // namespace penstock::io
