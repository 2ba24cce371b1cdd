#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "io/http/http_message.h"

// AWS Signature Version 4 for requests without a body, as S3 wants it: the path is escaped once and
// not normalized. Source: AWS, "Authenticating Requests: Using the Authorization Header"; the
// oracle in tests is botocore. Pure functions.

namespace penstock::io {

struct S3Key {
  std::string access_key_id, secret_access_key, session_token;
};

struct SigningRequest {
  std::string method = "GET";
  std::string host;              ///< with the port, as in the Host field
  std::string path;              ///< escaped, begins with '/'
  std::vector<HttpField> query;  ///< not escaped
  std::vector<HttpField> headers;
  std::string region;
  std::string timestamp;  ///< 20261121T212130Z
};

/// Names and values escaped, sorted: what follows '?' in the URL and in the canonical request.
std::string canonical_query(std::vector<HttpField> query);

/// The request's headers, then X-Amz-Content-SHA256, X-Amz-Date, X-Amz-Security-Token and
/// Authorization. Host is signed, too, and not among them.
std::vector<HttpField> sign_request(const SigningRequest& request, const S3Key& key);

/// Now, as `timestamp`.
std::string signing_time();

}  // namespace penstock::io
