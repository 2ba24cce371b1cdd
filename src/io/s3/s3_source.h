#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/threads/mutex.h"
#include "io/http/http_engine.h"
#include "io/remote/fork_safe_lock.h"
#include "io/remote/object_source.h"
#include "io/s3/credentials.h"

// Objects in S3 or a compatible service (MinIO, R2, Google Cloud Storage): listings by
// ListObjectsV2, ranges by GetObject, signed with our own canonical request.
//
// If a bucket answers that it has another region or host than configured, the request is signed
// again for these. Each attempt is signed when it starts, with keys that the caller looked up.

namespace penstock::io {

struct S3Options {
  enum class Addressing : uint8_t { kAuto, kPath, kVirtual };
  std::string region;    ///< empty: AWS_REGION, AWS_DEFAULT_REGION, the profile's, us-east-1
  std::string endpoint;  ///< empty: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the profile's, Amazon's
  Addressing addressing = Addressing::kAuto;  ///< auto: by path if there is an endpoint
  bool anonymous = false;
  bool requester_pays = false;
  S3CredentialOptions credentials;
};

struct S3Location {
  std::string bucket, key;
};
/// Parses s3://bucket/key. Throws InvalidArgument for another form.
S3Location parse_s3_uri(const std::string& uri);

class S3Source final : public ObjectSource {
 public:
  S3Source(const HttpOptions& http, S3Options options);

  RemoteListing list_tree(const std::string& directory, size_t max_objects) const override;
  RemoteListing list_folder(const std::string& directory) const override;
  void read(std::span<RemoteRead> reads) const override;
  RemoteCounts counts() const override { return engine_.get().counts(); }

  /// How another client reaches a bucket. `url` and `region` are those that the bucket has answered
  /// with, if something was read from it before.
  struct Access {
    std::string url;  ///< "https://bucket.host" or "https://host/bucket"
    std::string region;
    bool requester_pays = false;
  };
  Access access(const std::string& bucket) const;

  /// Keys that are valid for five minutes at least; none if requests are not signed. Throws IoError
  /// if there are none.
  std::optional<S3Key> key() const;

  /// Where a bucket's requests go.
  struct Home {
    std::string region;
    std::string endpoint;  ///< "https://host", empty: Amazon's for the region
  };
  class Signer;

 private:
  RemoteListing list(const std::string& directory, bool one_level, size_t max_objects) const;
  RemoteListing list(const std::string& directory, bool one_level, size_t max_objects,
                     const Signer& signer) const;
  template <typename Work>
  auto with_signer(Work&& work) const;
  Home home_of(const std::string& bucket) const;
  UrlParts url_of(const std::string& bucket, const Home& home) const;
  /// Whether the response names another home of the bucket. Throws IoError if it must not be
  /// followed.
  bool learn(const std::string& bucket, const HttpResponse& response,
             const std::string& place) const;

  HttpEnginePerProcess engine_;
  const S3Options options_;
  mutable S3CredentialChain credentials_;
  mutable std::map<std::string, Home> homes_ PENSTOCK_GUARDED_BY(fork_safe_lock());  // by bucket
};

}  // namespace penstock::io
