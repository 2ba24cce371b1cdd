#pragma once

#include <functional>
#include <map>
#include <string>

namespace penstock {

/// How to reach a remote store. All values are strings: numbers in decimal, switches "true" or
/// "false".
///
/// For http(s) and s3: max_requests (64), connect_timeout (10 seconds), stall_timeout (20 seconds
/// below 500 bytes a second), retry_timeout (60 seconds), max_attempts (8).
/// For http(s): header.NAME, a header field for the scheme, host and port of the URI.
/// For s3: region, endpoint, addressing_style ("auto", "path" or "virtual"), anonymous,
/// requester_pays, profile, access_key_id, secret_access_key, session_token.
struct StorageOptions {
  std::map<std::string, std::string> values;
  /// Returns S3 credentials that Penstock cannot find itself (SSO, roles) for a named profile:
  /// access_key_id, secret_access_key, session_token, expiration (RFC 3339, UTC). Called from any
  /// thread if there are none yet or they expire within five minutes. May be null.
  std::function<std::map<std::string, std::string>(const std::string& profile)> credentials{};
};

}  // namespace penstock
