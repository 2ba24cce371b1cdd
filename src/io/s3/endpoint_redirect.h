#pragma once

#include <string>

// Decides whether to follow an S3 endpoint that names another one by `Location` or `<Endpoint>`.
// botocore follows neither and trusts only regions. Followed here: the same host (another port,
// https instead of http), hosts below it, and one Amazon host to another. Never followed: https to
// http.

namespace penstock::io {

/// "https://host:port" of `named`, to which the service at `endpoint` redirects. Throws IoError,
/// with `place`, if it is another service or would end the encryption.
std::string redirected_endpoint(const std::string& endpoint, const std::string& named,
                                const std::string& place);

}  // namespace penstock::io
