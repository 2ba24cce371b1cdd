#pragma once

#include <string>

// Where an S3 endpoint may send a bucket's requests by `Location` or `<Endpoint>`. botocore follows
// neither and believes only regions. Here the same host (another port, https in place of http), the
// hosts below it and Amazon's own among each other are followed, never from https to http.

namespace penstock::io {

/// "https://host:port" of `named`, which the service at `endpoint` redirects to. IoError, with
/// `place`, when it is another service or would end the encryption.
std::string redirected_endpoint(const std::string& endpoint, const std::string& named,
                                const std::string& place);

}  // namespace penstock::io
