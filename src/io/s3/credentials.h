#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "io/http/http_engine.h"
#include "io/s3/shared_config.h"
#include "io/s3/sigv4.h"

// Where the keys that requests are signed with come from, in this order, as botocore's: arguments,
// environment (unless a profile was named), the profile's static keys, container metadata, instance
// metadata (IMDSv2). What only botocore does (SSO, web identity, roles, credential_process) is
// asked of a function that the Python package gives. Source: AWS SDKs and Tools Reference Guide,
// "Standardized credential providers".
//
// get() may be called from any thread; it makes requests when keys are missing or end within five
// minutes. Keys never get into a message.

namespace penstock::io {

struct S3Credentials {
  S3Key key;
  std::optional<std::chrono::system_clock::time_point> end;
};

struct S3CredentialOptions {
  S3Key given;
  std::string profile;  ///< as named by the user, else empty
  /// Keys from elsewhere: access_key_id, secret_access_key, session_token, expiration (RFC 3339);
  /// empty when there are none.
  std::function<std::map<std::string, std::string>(const std::string& profile)> fallback;
};

class S3CredentialChain {
 public:
  explicit S3CredentialChain(S3CredentialOptions options);
  ~S3CredentialChain();

  /// IoError that says what was looked at when there are none.
  S3Key get();

  /// The store says that these are no longer valid: whether there are others by now.
  bool renew(const S3Key& refused);

 private:
  std::optional<S3Credentials> find();
  std::optional<S3Credentials> from_container();
  std::optional<S3Credentials> from_instance();
  std::optional<S3Credentials> from_fallback();
  void check_fallback() const;

  struct Held {
    std::mutex mutex;
    std::optional<S3Credentials> keys;
  };
  Held& held();

  const S3CredentialOptions options_;
  HttpEnginePerProcess engine_;  // for metadata services: short patience
  // A child of a fork looks for keys of its own: its parent's may be locked by a thread that it
  // has not, while that one waits for a metadata service.
  Held* held_ = nullptr;
  int process_id_ = 0;  // of held_; both under fork_safe_lock()
};

/// The answer of a metadata service; nothing when it is none.
std::optional<S3Credentials> parse_credentials_json(std::string_view json);

/// "2026-11-21T21:21:30Z", with or without a fraction, or with +00:00.
std::optional<std::chrono::system_clock::time_point> parse_rfc3339(std::string_view text);

}  // namespace penstock::io
