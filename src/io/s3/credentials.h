#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/threads/mutex.h"
#include "io/http/http_engine.h"
#include "io/remote/fork_safe_lock.h"
#include "io/s3/shared_config.h"
#include "io/s3/sigv4.h"

// Finds the keys that sign requests. The order is botocore's: arguments, environment (unless a
// profile was named), the profile's static keys, container metadata, instance metadata (IMDSv2).
// Methods that only botocore has (SSO, web identity, roles, credential_process) are delegated to a
// function of the Python package. Source: AWS SDKs and Tools Reference Guide, "Standardized
// credential providers".
//
// get() may be called from any thread. It makes requests if keys are missing or expire within five
// minutes. Keys never appear in a message.

namespace penstock::io {

struct S3Credentials {
  S3Key key;
  std::optional<std::chrono::system_clock::time_point> end;
};

struct S3CredentialOptions {
  S3Key given;
  std::string profile;  ///< as named by the user, else empty
  /// Returns other keys: access_key_id, secret_access_key, session_token, expiration (RFC 3339);
  /// empty if there are none.
  std::function<std::map<std::string, std::string>(const std::string& profile)> fallback;
};

class S3CredentialChain {
 public:
  explicit S3CredentialChain(S3CredentialOptions options);
  ~S3CredentialChain();

  /// Throws IoError if there are no keys; the message lists the places searched.
  S3Key get();

  /// Call when the store refuses keys as expired. True if there are other keys now.
  bool renew(const S3Key& refused);

 private:
  std::optional<S3Credentials> find();
  std::optional<S3Credentials> from_container();
  std::optional<S3Credentials> from_instance();
  std::optional<S3Credentials> from_fallback();
  void check_fallback() const;

  struct Held {
    Mutex mutex;
    std::optional<S3Credentials> keys PENSTOCK_GUARDED_BY(mutex);
  };
  Held& held();

  const S3CredentialOptions options_;
  HttpEnginePerProcess engine_;  // for metadata services: short patience
  // A forked child looks for its own keys: its parent's may be locked by a thread that waits for a
  // metadata service and does not exist in the child.
  Held* held_ PENSTOCK_GUARDED_BY(fork_safe_lock()) = nullptr;
  int process_id_ PENSTOCK_GUARDED_BY(fork_safe_lock()) = 0;  // of held_
};

/// Parses the response of a metadata service; null if it is not one.
std::optional<S3Credentials> parse_credentials_json(std::string_view json);

/// "2026-11-21T21:21:30Z", with or without a fraction, or with +00:00.
std::optional<std::chrono::system_clock::time_point> parse_rfc3339(std::string_view text);

}  // namespace penstock::io
