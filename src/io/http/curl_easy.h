#pragma once

#include <curl/curl.h>

#include <chrono>
#include <span>
#include <string>

#include "io/http/http_engine.h"
#include "io/http/http_message.h"

// One attempt of a transfer as a curl easy handle: set up from a request, it collects the response.
// Used only by the engine's thread; the handle is reused for the next attempt.

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
  /// The response, after curl reported how the transfer ended.
  HttpResponse finish(CURLcode code);
  /// The response of a transfer that stalled and was removed from curl.
  HttpResponse give_up();
  /// Time of set(), or when the last bytes arrived.
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
