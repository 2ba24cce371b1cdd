#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "io/http/http_message.h"

// AWS Signature Version 4 for requests without a body. As S3 requires, the path is escaped once and
// not normalized. Source: AWS, "Authenticating Requests: Using the Authorization Header". Tests
// compare with botocore. Pure functions.

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

/// The query of the URL and of the canonical request: names and values escaped and sorted.
std::string canonical_query(std::vector<HttpField> query);

/// The request's headers, then X-Amz-Content-SHA256, X-Amz-Date, X-Amz-Security-Token and
/// Authorization. Host is signed too, but not returned.
std::vector<HttpField> sign_request(const SigningRequest& request, const S3Key& key);

/// Now, as `timestamp`.
std::string signing_time();

}  // namespace penstock::io
