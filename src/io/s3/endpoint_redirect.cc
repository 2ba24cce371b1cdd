#include "io/s3/endpoint_redirect.h"

#include <penstock/error.h>

#include "io/http/redirect.h"
#include "io/url_secrets.h"

namespace penstock::io {
namespace {

/// Of "https://host:443".
std::string host_of(const std::string& origin) {
  const size_t begin = origin.find("://") + 3;
  return origin.substr(begin, origin.rfind(':') - begin);
}

bool is_below(const std::string& host, const std::string& domain) {
  return host.ends_with("." + domain);
}

bool is_same_service(const std::string& host, const std::string& before) {
  if (host == before || is_below(host, before)) return true;
  for (const char* amazon : {"amazonaws.com", "amazonaws.com.cn"}) {
    if (is_below(host, amazon) && is_below(before, amazon)) return true;
  }
  return false;
}

}  // namespace

std::string redirected_endpoint(const std::string& endpoint, const std::string& named,
                                const std::string& place) {
  const std::string origin = origin_of(named), before = origin_of(endpoint);
  const auto refuse = [&](const std::string& why) {
    throw IoError("the S3 endpoint " + shown_address(endpoint) + " redirects to " +
                  shown_address(named) + why + ": " + place);
  };
  if (origin.empty() || !secret_part_of(origin).empty()) refuse(", which is no endpoint");
  if (before.starts_with("https:") && origin.starts_with("http:")) {
    refuse(
        ", from https:// to http://, where requests and their session token would travel in the "
        "clear; not followed");
  }
  if (!is_same_service(host_of(origin), host_of(before))) {
    refuse(
        ", which is another service; not followed. If it is the right one, give it as endpoint in "
        "storage_options");
  }
  const std::string scheme = origin.substr(0, origin.find(':'));
  const std::string port = origin.substr(origin.rfind(':') + 1);
  const bool usual = port == (scheme == "https" ? "443" : "80");
  return usual ? origin.substr(0, origin.rfind(':')) : origin;
}

}  // namespace penstock::io
