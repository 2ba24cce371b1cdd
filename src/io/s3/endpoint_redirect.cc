#include "io/s3/endpoint_redirect.h"

#include <penstock/error.h>

#include "io/http/redirect.h"
#include "io/url_secrets.h"

namespace penstock::io {
namespace {

/// The host of "https://host:443".
std::string host_of(const std::string& origin) {
  const size_t begin = origin.find("://") + 3;
  return origin.substr(begin, origin.rfind(':') - begin);
}

bool is_below(const std::string& host, const std::string& domain) {
  return host.ends_with("." + domain);
}

/// Whether a host is Amazon S3's. From the right: the domain, an optional region, an optional
/// "dualstack", and a label that is "s3" or begins with "s3-". Other hosts of the domain may belong
/// to anybody, such as load balancers. https://docs.aws.amazon.com/general/latest/gr/s3.html
bool is_amazon_s3(std::string host) {
  const std::string domain = host.ends_with(".cn") ? "amazonaws.com.cn" : "amazonaws.com";
  if (!is_below(host, domain)) return false;
  host.resize(host.size() - domain.size() - 1);
  for (int other = 0; other < 3; ++other) {
    const size_t begin = host.rfind('.') + 1;  // 0 if there is no dot
    const std::string label = host.substr(begin);
    if (label == "s3" || label.starts_with("s3-")) return true;
    const bool may_follow = other == 0 || label == "dualstack";
    if (!may_follow || begin == 0) return false;
    host.resize(begin - 1);
  }
  return false;
}

bool is_same_service(const std::string& host, const std::string& before) {
  return host == before || is_below(host, before) || (is_amazon_s3(host) && is_amazon_s3(before));
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
