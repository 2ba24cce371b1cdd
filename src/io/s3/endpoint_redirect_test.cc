#include "io/s3/endpoint_redirect.h"

#include <gtest/gtest.h>
#include <penstock/error.h>

#include <array>
#include <vector>

namespace penstock::io {
namespace {

TEST(EndpointRedirect, StaysInTheServiceAndEncrypted) {
  const std::string minio = "https://minio.example.org:9000";
  for (const auto& [before, named, after] : std::vector<std::array<std::string, 3>>{
           {"http://minio:9000", "https://minio/b/k", "https://minio"},
           {minio, "https://MINIO.example.org/", "https://minio.example.org"},
           {minio, "https://b.minio.example.org:9000/", "https://b.minio.example.org:9000"},
           {"https://s3.us-east-1.amazonaws.com", "https://b.s3-us-west-2.amazonaws.com/k",
            "https://b.s3-us-west-2.amazonaws.com"}}) {
    EXPECT_EQ(redirected_endpoint(before, named, ""), after);
  }
  for (const char* named :
       {"http://minio.example.org:9000/", "http://b.minio.example.org", "https://example.org",
        "https://evil.org/minio.example.org", "https://evilminio.example.org",
        "https://minio.example.org@evil.org/", "https://minio.example.org.evil.org",
        "https://b.s3.amazonaws.com", "ftp://minio.example.org", "https://"}) {
    EXPECT_THROW(redirected_endpoint(minio, named, ""), IoError) << named;
  }
  try {
    redirected_endpoint(minio, "http://minio.example.org:9000/b", "the place");
    FAIL();
  } catch (const IoError& error) {
    const std::string said = error.what();
    EXPECT_NE(said.find("from https:// to http://"), std::string::npos) << said;
    EXPECT_NE(said.find("the place"), std::string::npos) << said;
  }
}

TEST(EndpointRedirect, StaysInAmazonS3) {
  const std::string before = "https://s3.amazonaws.com";
  for (const char* host :
       {"s3.us-west-2.amazonaws.com", "b.s3.us-west-2.amazonaws.com", "s3-us-west-2.amazonaws.com",
        "b.c.s3-accelerate.amazonaws.com", "s3.dualstack.eu-west-1.amazonaws.com",
        "b.s3-fips.dualstack.us-east-1.amazonaws.com", "b.s3-accelerate.dualstack.amazonaws.com",
        "s3.cn-north-1.amazonaws.com.cn"}) {
    const std::string named = "https://" + std::string(host);
    EXPECT_EQ(redirected_endpoint(before, named, ""), named);
  }
  for (const char* host :
       {"s3-mine-1.us-east-1.elb.amazonaws.com", "s3.execute-api.us-east-1.amazonaws.com",
        "s3.us-east-1.elb.amazonaws.com", "us-east-1.amazonaws.com", "mine.amazonaws.com",
        "s3.amazonaws.com.evil.org", "s3.evilamazonaws.com",
        "s3.dualstack.dualstack.dualstack.amazonaws.com"}) {
    EXPECT_THROW(redirected_endpoint(before, "https://" + std::string(host), ""), IoError) << host;
  }
}

}  // namespace
}  // namespace penstock::io
