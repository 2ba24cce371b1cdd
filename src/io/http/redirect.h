#pragma once

#include <string>

#include "io/http/http_message.h"

// The next address of a transfer when servers redirect it. libcurl must not follow redirects: it
// would send the user's headers to any host.
//
// Redirects 301, 302, 303, 307 and 308 to http:// and https:// are followed. Never followed: from
// https to http, and to an address with a user or password. The user's headers are sent only while
// every address so far had the origin (scheme, host and port) of the first. The engine limits the
// number of redirects.
//
// Not thread-safe; belongs to one transfer.

namespace penstock::io {

/// "https://host:443", in lower case and always with the port; empty unless an http(s) URL.
std::string origin_of(const std::string& url);

class RedirectedUrl {
 public:
  explicit RedirectedUrl(std::string url) : first_(std::move(url)), url_(first_) {}

  /// The next address to request.
  const std::string& url() const noexcept { return url_; }
  /// Whether the user's headers may be sent there.
  bool in_origin() const noexcept { return in_origin_; }

  /// Sets the address to the redirect's. False if the response is not a redirect. Throws IoError,
  /// with `place`, if the redirect must not be followed.
  bool follow(const HttpResponse& response, const std::string& place);
  /// Returns to the first address: a signed address from a redirect may be valid only once.
  void restart();

  /// For messages: ", redirected to https://host/path"; empty at the first address.
  std::string note() const;

 private:
  std::string first_, url_;
  bool in_origin_ = true;
};

}  // namespace penstock::io
