#include "io/http/redirect.h"

#include <curl/curl.h>
#include <penstock/error.h>

#include <algorithm>

#include "base/concat.h"
#include "io/url_secrets.h"

namespace penstock::io {
namespace {

/// A URL as curl parses it, so that the address compared is the one requested.
class Url {
 public:
  explicit Url(const std::string& text) : handle_(curl_url()) {
    if (handle_ == nullptr) throw ResourceExhausted("no memory for a URL");
    valid_ = set(text);
  }
  ~Url() { curl_url_cleanup(handle_); }
  Url(const Url&) = delete;
  Url& operator=(const Url&) = delete;

  /// Relative references are resolved against the current URL.
  bool set(const std::string& text) {
    // Blanks are escaped; curl 8 also has to be told that they are there. Other schemes are
    // accepted here, so that an error can name them.
    const unsigned flags =
        CURLU_URLENCODE | CURLU_ALLOW_SPACE | CURLU_PATH_AS_IS | CURLU_NON_SUPPORT_SCHEME;
    valid_ = curl_url_set(handle_, CURLUPART_URL, text.c_str(), flags) == CURLUE_OK;
    return valid_;
  }
  bool valid() const noexcept { return valid_; }

  std::string part(CURLUPart which, unsigned flags = 0) const {
    char* text = nullptr;
    if (!valid_ || curl_url_get(handle_, which, &text, flags) != CURLUE_OK) return {};
    std::string copy(text);
    curl_free(text);
    return copy;
  }
  std::string lower_part(CURLUPart which, unsigned flags = 0) const {
    std::string text = part(which, flags);
    std::transform(text.begin(), text.end(), text.begin(), [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    return text;
  }
  std::string scheme() const { return lower_part(CURLUPART_SCHEME); }
  bool is_web() const { return scheme() == "http" || scheme() == "https"; }
  std::string origin() const {
    if (!is_web()) return {};
    const std::string host = lower_part(CURLUPART_HOST);
    return host.empty() ? std::string()
                        : scheme() + "://" + host + ":" + part(CURLUPART_PORT, CURLU_DEFAULT_PORT);
  }
  bool has_user() const {
    return !part(CURLUPART_USER).empty() || !part(CURLUPART_PASSWORD).empty();
  }

 private:
  CURLU* handle_;
  bool valid_ = false;
};

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

}  // namespace

std::string origin_of(const std::string& url) { return Url(url).origin(); }

bool RedirectedUrl::follow(const HttpResponse& response, const std::string& place) {
  const std::string location(response.header("location"));
  if (!is_redirect(response.status) || location.empty()) return false;
  Url url(url_);
  const std::string scheme_before = url.scheme();
  const auto refuse = [&](const std::string& why) {
    throw IoError(
        concat("the server redirects (HTTP ", response.status, ") to ", why, ": ", place));
  };
  if (!url.set(location)) refuse("an address that is not a URL");
  const std::string shown = shown_address(url.part(CURLUPART_URL));
  if (!url.is_web()) refuse(shown + ", but only http:// and https:// are read");
  if (scheme_before == "https" && url.scheme() == "http") {
    refuse(shown + ", from https:// to http://, where all would travel in the clear; not followed");
  }
  if (url.has_user()) refuse(shown + " with a user or password; not followed");
  in_origin_ = in_origin_ && url.origin() == origin_of(first_);
  url_ = url.part(CURLUPART_URL);
  return true;
}

void RedirectedUrl::restart() {
  url_ = first_;
  in_origin_ = true;
}

std::string RedirectedUrl::note() const {
  return url_ == first_ ? std::string() : ", redirected to " + shown_address(url_);
}

}  // namespace penstock::io
