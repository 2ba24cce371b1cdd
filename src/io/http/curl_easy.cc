#include "io/http/curl_easy.h"

#include <penstock/error.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "io/http/certificates.h"

namespace penstock::io {
namespace {

constexpr size_t kMaxHeaderLines = 256;

// Whether CURLE_UNSUPPORTED_PROTOCOL means a response without a status line, which is HTTP/0.9 for
// curl. Otherwise the scheme of the address is not supported.
bool is_of_garbled_answer(CURL* handle) {
  const char* url = nullptr;
  curl_easy_getinfo(handle, CURLINFO_EFFECTIVE_URL, &url);
  const auto parts = split_url(url != nullptr ? url : "");
  return parts && (parts->scheme == "http" || parts->scheme == "https");
}

// Whether a retry cannot help.
bool is_final(CURL* handle, CURLcode code) {
  switch (code) {
    case CURLE_UNSUPPORTED_PROTOCOL:
      return !is_of_garbled_answer(handle);
    case CURLE_URL_MALFORMAT:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
      return true;
    default:
      return false;
  }
}

// Whether a certificate was refused, but not for its dates or its name: trusting others may help.
bool is_of_unknown_issuer(CURL* handle, CURLcode code) {
  // X509_V_ERR_... of OpenSSL; kUnspecified is what curl says of a wrong name.
  constexpr long kUnspecified = 1, kNotYetValid = 9, kExpired = 10;
  if (code != CURLE_PEER_FAILED_VERIFICATION) return false;
  long server = 0, proxy = 0;
  curl_easy_getinfo(handle, CURLINFO_SSL_VERIFYRESULT, &server);
  curl_easy_getinfo(handle, CURLINFO_PROXY_SSL_VERIFYRESULT, &proxy);
  const auto is_other = [](long why) {
    return why != 0 && why != kUnspecified && why != kNotYetValid && why != kExpired;
  };
  return is_other(server) || is_other(proxy);
}

}  // namespace

void init_curl() {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
}

CurlEasy::CurlEasy() : handle_(curl_easy_init()) {
  if (handle_ == nullptr) throw ResourceExhausted("cannot make a curl handle");
}

CurlEasy::~CurlEasy() {
  curl_slist_free_all(headers_);
  curl_easy_cleanup(handle_);
}

void CurlEasy::set(const HttpRequest& request, std::span<std::byte> sink,
                   const HttpOptions& options) {
  curl_easy_reset(handle_);
  curl_slist_free_all(headers_);
  headers_ = nullptr;
  sink_ = sink;
  max_text_bytes_ = request.max_text_bytes;
  response_ = {};
  error_[0] = '\0';
  last_progress_ = std::chrono::steady_clock::now();
  for (const auto& [name, value] : request.headers) {
    // "name;" is curl's way to send a field without a value.
    const std::string line = value.empty() ? name + ";" : name + ": " + value;
    curl_slist* const more = curl_slist_append(headers_, line.c_str());
    if (more == nullptr) throw ResourceExhausted("no memory for request headers");
    headers_ = more;
  }
  const auto set = [this](CURLoption option, auto value) {
    curl_easy_setopt(handle_, option, value);
  };
  set(CURLOPT_URL, request.url.c_str());
  if (request.method != "GET") set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
  set(CURLOPT_HTTPHEADER, headers_);
  set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(CURLOPT_PATH_AS_IS, 1L);  // keys may have dots that look like folders
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_USERAGENT, "penstock");
  set(CURLOPT_ERRORBUFFER, error_);
  set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options.connect_timeout_seconds * 1000));
  set(CURLOPT_LOW_SPEED_LIMIT, 500L);
  set(CURLOPT_LOW_SPEED_TIME, std::max(1L, static_cast<long>(options.stall_timeout_seconds + 0.5)));
  set(CURLOPT_TCP_KEEPALIVE, 1L);
  set(CURLOPT_BUFFERSIZE, 256L * 1024);
  set(CURLOPT_FOLLOWLOCATION, 0L);  // redirect.h decides what is followed, and with which headers
  if (!request.use_proxy) set(CURLOPT_PROXY, "");
#if LIBCURL_VERSION_NUM >= 0x075500
  set(CURLOPT_PROTOCOLS_STR, "http,https");
#else
  set(CURLOPT_PROTOCOLS, static_cast<long>(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
#if LIBCURL_VERSION_NUM >= 0x075700
  set(CURLOPT_QUICK_EXIT, 1L);  // does not wait for name resolution
#endif
  if (const Certificates& trusted = certificates(); !trusted.empty()) {
    // Null if there is none; otherwise curl adds its built-in path, and fails if that is missing.
    const char* const file = trusted.file.empty() ? nullptr : trusted.file.c_str();
    const char* const folder = trusted.folder.empty() ? nullptr : trusted.folder.c_str();
    set(CURLOPT_CAINFO, file);
    set(CURLOPT_CAPATH, folder);
    set(CURLOPT_PROXY_CAINFO, file);
    set(CURLOPT_PROXY_CAPATH, folder);
  }
  if (sink.empty()) {  // a text that announces too many bytes is not read
    set(CURLOPT_MAXFILESIZE_LARGE, static_cast<curl_off_t>(request.max_text_bytes));
  }
  set(CURLOPT_HEADERFUNCTION, &CurlEasy::on_header);
  set(CURLOPT_HEADERDATA, this);
  set(CURLOPT_WRITEFUNCTION, &CurlEasy::on_body);
  set(CURLOPT_WRITEDATA, this);
}

size_t CurlEasy::on_header(char* data, size_t size, size_t count, void* self) {
  auto& response = static_cast<CurlEasy*>(self)->response_;
  static_cast<CurlEasy*>(self)->last_progress_ = std::chrono::steady_clock::now();
  const std::string_view line(data, size * count);
  if (line.starts_with("HTTP/")) {
    response.text.clear();
    response.body_bytes = 0;
  }
  if (response.headers.size() < kMaxHeaderLines) add_header_line(line, response.headers);
  return size * count;
}

size_t CurlEasy::on_body(char* data, size_t size, size_t count, void* self) {
  auto& easy = *static_cast<CurlEasy*>(self);
  const size_t bytes = size * count;
  easy.last_progress_ = std::chrono::steady_clock::now();
  long status = 0;
  curl_easy_getinfo(easy.handle_, CURLINFO_RESPONSE_CODE, &status);
  const uint64_t done = easy.response_.body_bytes;
  const bool is_good = status >= 200 && status < 300;
  if (!easy.sink_.empty() && is_good) {
    if (bytes > easy.sink_.size() - done) {
      easy.response_.too_long = true;
      return 0;  // ends the transfer
    }
    std::memcpy(easy.sink_.data() + done, data, bytes);
  } else if (done + bytes <= (is_good ? easy.max_text_bytes_ : kMaxTextBytes)) {
    easy.response_.text.append(data, bytes);
  } else {
    easy.response_.too_long = true;
    return 0;
  }
  easy.response_.body_bytes += bytes;
  return bytes;
}

HttpResponse CurlEasy::give_up() {
  response_.status = 0;
  response_.stalled = true;
  response_.failure = "nothing came any more";
  return std::move(response_);
}

HttpResponse CurlEasy::finish(CURLcode code) {
  long status = 0;
  curl_easy_getinfo(handle_, CURLINFO_RESPONSE_CODE, &status);
  response_.status = static_cast<int>(status);
  if (code != CURLE_OK) {
    // curl quotes a bad proxy address in its message, with the password.
    const bool tells_more = error_[0] != '\0' && std::strchr(error_, '@') == nullptr;
    response_.failure = tells_more ? error_ : curl_easy_strerror(code);
    response_.stalled = code == CURLE_OPERATION_TIMEDOUT;
    response_.too_long |= code == CURLE_FILESIZE_EXCEEDED;
    response_.refused = is_final(handle_, code);
    if (code == CURLE_SSL_CACERT_BADFILE || is_of_unknown_issuer(handle_, code)) {
      response_.failure += " (" + describe(certificates()) + ")";
    }
  }
  return std::move(response_);
}

}  // namespace penstock::io
