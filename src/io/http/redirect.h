#pragma once

#include <string>

#include "io/http/http_message.h"

// Where the next request of a transfer goes when servers redirect it. libcurl is not asked to
// follow redirects: it would send the user's headers to whatever host it is led to.
//
// What is followed: 301, 302, 303, 307 and 308 to http:// and https://, but never from https to
// http, and never to an address with a user or password. Headers that the user gave go along while
// every address so far had the origin (scheme, host and port) of the first. The engine limits how
// many redirects there may be.
//
// Not thread-safe; belongs to one transfer.

namespace penstock::io {

/// "https://host:443", in lower case and always with the port; empty for what is no http(s) URL.
std::string origin_of(const std::string& url);

class RedirectedUrl {
 public:
  explicit RedirectedUrl(std::string url) : first_(std::move(url)), url_(first_) {}

  /// What to ask for next.
  const std::string& url() const noexcept { return url_; }
  /// Whether the user's headers may be sent there.
  bool in_origin() const noexcept { return in_origin_; }

  /// Takes the address that an answer redirects to. False when the answer is no redirect; IoError,
  /// with `place`, when it leads where it may not.
  bool follow(const HttpResponse& response, const std::string& place);
  /// Back to the first address: a signed one that was redirected to may not be valid twice.
  void restart();

  /// For messages: ", redirected to https://host/path"; empty at the first address.
  std::string note() const;

 private:
  std::string first_, url_;
  bool in_origin_ = true;
};

}  // namespace penstock::io
