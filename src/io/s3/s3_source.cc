#include "io/s3/s3_source.h"

#include <penstock/error.h>

#include <algorithm>
#include <set>

#include "base/threads/mutex.h"
#include "io/http/range_transfer.h"
#include "io/http/redirect.h"
#include "io/remote/fork_safe_lock.h"
#include "io/s3/endpoint_redirect.h"
#include "io/s3/sigv4.h"
#include "io/s3/xml_answer.h"
#include "io/url_secrets.h"

namespace penstock::io {
namespace {

constexpr std::string_view kScheme = "s3://";
constexpr const char* kDefaultRegion = "us-east-1";
constexpr int kMaxEmptyPages = 100;
/// Most bytes of the pages of one listing, which takes a few times as much memory.
constexpr uint64_t kMaxListingBytes = uint64_t{256} << 20;

std::string first_of(std::initializer_list<std::string> texts) {
  for (const std::string& text : texts) {
    if (!text.empty()) return text;
  }
  return {};
}

/// Characters that are allowed in a host name.
bool has_host_characters(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
}

// Fills in unset options from the environment and the profile.
S3Options complete(S3Options options) {
  const ConfigSection profile = load_profile(profile_name(options.credentials.profile));
  const auto setting = [&](const char* name) {
    const auto found = profile.find(name);
    return found == profile.end() ? std::string() : found->second;
  };
  options.region =
      first_of({options.region, environment_text("AWS_REGION"),
                environment_text("AWS_DEFAULT_REGION"), setting("region"), kDefaultRegion});
  options.endpoint = first_of({options.endpoint, environment_text("AWS_ENDPOINT_URL_S3"),
                               environment_text("AWS_ENDPOINT_URL"), setting("endpoint_url")});
  while (options.endpoint.ends_with('/')) options.endpoint.pop_back();
  check_no_secrets("endpoint", options.endpoint);
  if (!options.endpoint.empty() && origin_of(options.endpoint).empty()) {
    throw InvalidArgument(
        "endpoint must be a URL such as https://minio.example.org:9000; it comes from "
        "storage_options, AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or the profile");
  }
  if (!has_host_characters(options.region)) {
    throw InvalidArgument(
        "region must be a name such as eu-west-1; it comes from storage_options, AWS_REGION, "
        "AWS_DEFAULT_REGION or the profile");
  }
  if (options.addressing == S3Options::Addressing::kAuto) {
    const std::string style = setting("s3.addressing_style");
    if (style == "path") options.addressing = S3Options::Addressing::kPath;
    if (style == "virtual") options.addressing = S3Options::Addressing::kVirtual;
  }
  return options;
}

/// Whether a certificate for *.s3.region.amazonaws.com covers the bucket's name.
bool is_host_label(const std::string& bucket) {
  if (bucket.size() < 3 || bucket.size() > 63) return false;
  return std::all_of(bucket.begin(), bucket.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

std::string amazon(const std::string& region) {
  const bool china = region.starts_with("cn-");
  return "https://s3." + region + ".amazonaws.com" + (china ? ".cn" : "");
}

/// Whether the keys were refused. Servers also send these codes with status 400.
bool is_about_keys(const std::string& code) {
  for (const char* each : {"ExpiredToken", "InvalidToken", "TokenRefreshRequired",
                           "InvalidAccessKeyId", "SignatureDoesNotMatch"}) {
    if (code == each) return true;
  }
  return false;
}

/// The keys have expired; their provider may have new ones.
class KeysEnded : public IoError {
 public:
  using IoError::IoError;
};

bool is_about_their_end(const std::string& code) {
  return code == "ExpiredToken" || code == "InvalidToken" || code == "TokenRefreshRequired";
}

std::string advice(const S3Error& error, bool anonymous) {
  if (error.code == "SignatureDoesNotMatch") {
    return "check the secret access key; a proxy or the endpoint may also have changed the request";
  }
  if (error.code == "InvalidAccessKeyId") return "check the access key id and the endpoint";
  if (is_about_their_end(error.code)) {
    return "the session token is no longer valid; get new credentials";
  }
  if (error.code == "RequestTimeTooSkewed") return "check the clock of this machine";
  if (anonymous) {
    return "the request was anonymous; if the bucket is not public, leave anonymous away and give "
           "credentials";
  }
  return "check the credentials in use and that they allow s3:GetObject and s3:ListBucket there";
}

Verdict refuse(const HttpResponse& response, const std::string& bucket, const std::string& place,
               bool anonymous, bool listing) {
  const S3Error error = parse_s3_error(response.text);
  std::string what = "S3 answers " + status_text(response.status);
  if (!error.code.empty()) what += ", " + error.code;
  if (response.status == 404 && error.code == "NoSuchBucket") {
    return failed(std::make_exception_ptr(
        NotFound("there is no bucket " + bucket + " at this endpoint: " + place)));
  }
  if (response.status == 404) return failed(std::make_exception_ptr(NotFound(what + ": " + place)));
  if (response.status == 401 || response.status == 403 || is_about_keys(error.code)) {
    if (listing) what = "the bucket may not be listed: " + what;
    if (is_about_their_end(error.code)) {
      return failed(std::make_exception_ptr(
          KeysEnded(what + "; " + advice(error, anonymous) + ": " + place)));
    }
    return failed(
        std::make_exception_ptr(IoError(what + "; " + advice(error, anonymous) + ": " + place)));
  }
  if (!error.message.empty()) what += " (" + error.message + ")";
  if (const auto location = response.header("location"); !location.empty()) {
    what += ", to " + shown_address(location);
  }
  return failed(std::make_exception_ptr(IoError(what + ": " + place)));
}

}  // namespace

S3Location parse_s3_uri(const std::string& uri) {
  const std::string_view rest = std::string_view(uri).substr(std::min(uri.size(), kScheme.size()));
  const size_t slash = std::min(rest.find('/'), rest.size());
  if (!uri.starts_with(kScheme) || slash == 0) {
    throw InvalidArgument("not an S3 URI, s3://bucket/key: " + uri);
  }
  S3Location location;
  location.bucket = rest.substr(0, slash);
  if (slash < rest.size()) location.key = rest.substr(slash + 1);
  return location;
}

/// Signs the transfers of a run; keys are looked up when it is made.
class S3Source::Signer {
 public:
  Signer(const S3Source& source, std::optional<S3Key> key)
      : source_(source), key_(std::move(key)) {}

  HttpRequest request(const S3Location& at, std::vector<HttpField> query,
                      std::vector<HttpField> headers) const {
    const S3Options& options = source_.options_;
    const Home home = source_.home_of(at.bucket);
    UrlParts url = source_.url_of(at.bucket, home);
    url.path += "/" + percent_encode(at.key, false);
    if (options.requester_pays) headers.emplace_back("x-amz-request-payer", "requester");
    SigningRequest signing{"GET",       url.host,      url.path, query, std::move(headers),
                           home.region, signing_time()};
    HttpRequest request;
    request.url = url.scheme + "://" + url.host + url.path;
    if (!query.empty()) request.url += "?" + canonical_query(std::move(query));
    request.headers = key_ ? sign_request(signing, *key_) : std::move(signing.headers);
    return request;
  }

  /// What to do with a response that is not 2xx.
  Verdict refusal(const HttpResponse& response, const std::string& bucket, const std::string& place,
                  bool listing) const {
    if (source_.learn(bucket, response, place)) return {Verdict::Kind::kAgain, "", 0, nullptr};
    const S3Error error = parse_s3_error(response.text);
    if (error.code == "RequestTimeout" || error.code == "SlowDown") {
      return {Verdict::Kind::kRetry, "S3 answers " + error.code, 0, nullptr};
    }
    return refuse(response, bucket, place, !key_, listing);
  }

 private:
  const S3Source& source_;
  const std::optional<S3Key> key_;
};

namespace {

class S3Range final : public RangeTransfer {
 public:
  S3Range(RemoteRead& wanted, const S3Source::Signer& signer)
      : RangeTransfer(wanted), at_(parse_s3_uri(wanted.object.path)), signer_(signer) {}

  HttpRequest prepare() override { return signer_.request(at_, {}, range_headers()); }

 private:
  Verdict judge_refusal(const HttpResponse& response) override {
    return signer_.refusal(response, at_.bucket, place(), false);
  }
  const S3Location at_;
  const S3Source::Signer& signer_;
};

class S3List final : public Transfer {
 public:
  S3List(S3Location at, bool one_level, const S3Source::Signer& signer)
      : at_(std::move(at)), signer_(signer) {
    query_ = {{"list-type", "2"}, {"max-keys", "1000"}, {"prefix", at_.key}};
    if (one_level) query_.emplace_back("delimiter", "/");
  }

  HttpRequest prepare() override {
    auto query = query_;
    if (!token_.empty()) query.emplace_back("continuation-token", token_);
    return signer_.request({at_.bucket, ""}, std::move(query), {});
  }

  Verdict judge(const HttpResponse& response) override {
    Verdict verdict;
    if (response.status >= 300 && response.status < 500 && response.status != 408 &&
        response.status != 429) {
      return signer_.refusal(response, at_.bucket, place(), true);
    }
    if (retry_later(response, verdict)) {
      if (verdict.kind == Verdict::Kind::kFail) {
        verdict.error =
            std::make_exception_ptr(IoError("no connection: " + response.failure + ": " + place()));
      }
      return verdict;
    }
    try {
      page_ = parse_list_page(response.text);
    } catch (const NoListing& error) {
      return {Verdict::Kind::kRetry, error.what(), 0, nullptr};
    } catch (const CorruptData& error) {
      return failed(std::make_exception_ptr(CorruptData(error.what() + (", " + place()))));
    }
    token_ = page_.continuation_token;
    received_ += response.text.size();
    return expect_end();
  }

  std::string place() const override { return "listing of s3://" + at_.bucket + "/" + at_.key; }
  const ListPage& page() const noexcept { return page_; }

 private:
  // Each page has the token of the next. A server that never ends the listing is refused.
  Verdict expect_end() {
    empty_pages_ = page_.objects.empty() && page_.prefixes.empty() ? empty_pages_ + 1 : 0;
    std::string fault;
    if (page_.truncated && !seen_.insert(token_).second) {
      fault = "the listing goes round: a continuation token came a second time";
    } else if (page_.truncated && empty_pages_ >= kMaxEmptyPages) {
      fault =
          "the listing has no end after " + std::to_string(empty_pages_) + " pages without a key";
    } else if (page_.truncated && received_ >= kMaxListingBytes) {
      fault =
          "the listing has no end after 256 MiB, half a million names or more in one folder (an "
          "array "
          "with so many fragments can be consolidated)";
    }
    return fault.empty() ? Verdict()
                         : failed(std::make_exception_ptr(IoError(fault + ": " + place())));
  }

  const S3Location at_;
  const S3Source::Signer& signer_;
  std::vector<HttpField> query_;
  std::string token_;
  std::set<std::string> seen_;  ///< tokens
  int empty_pages_ = 0;         ///< in a row
  uint64_t received_ = 0;       ///< bytes of all pages
  ListPage page_;
};

}  // namespace

S3Source::S3Source(const HttpOptions& http, S3Options options)
    : engine_(http), options_(complete(std::move(options))), credentials_(options_.credentials) {}

S3Source::Home S3Source::home_of(const std::string& bucket) const {
  const MutexLock lock(fork_safe_lock());
  const auto found = homes_.find(bucket);
  return found != homes_.end() ? found->second : Home{options_.region, options_.endpoint};
}

UrlParts S3Source::url_of(const std::string& bucket, const Home& home) const {
  UrlParts url = split_url(home.endpoint.empty() ? amazon(home.region) : home.endpoint).value();
  bool by_path = options_.addressing == S3Options::Addressing::kPath;
  if (options_.addressing == S3Options::Addressing::kAuto) {
    by_path = !options_.endpoint.empty() || !is_host_label(bucket);
  }
  if (by_path || !has_host_characters(bucket)) {
    url.path += "/" + percent_encode(bucket, true);
  } else if (!url.host.starts_with(bucket + ".")) {
    url.host = bucket + "." + url.host;
  }
  return url;
}

S3Source::Access S3Source::access(const std::string& bucket) const {
  const Home home = home_of(bucket);
  const UrlParts url = url_of(bucket, home);
  return {url.scheme + "://" + url.host + url.path, home.region, options_.requester_pays};
}

std::optional<S3Key> S3Source::key() const {
  if (options_.anonymous) return std::nullopt;
  return credentials_.get();
}

bool S3Source::learn(const std::string& bucket, const HttpResponse& response,
                     const std::string& place) const {
  const S3Error error = parse_s3_error(response.text);
  Home home = home_of(bucket);
  const Home before = home;
  std::string region =
      first_of({std::string(response.header("x-amz-bucket-region")), error.region});
  if (!has_host_characters(region)) region.clear();
  if (!region.empty()) home.region = region;
  const bool moved = response.status == 301 || response.status == 302 || response.status == 307 ||
                     response.status == 308;
  const bool misplaced = moved || error.code == "AuthorizationHeaderMalformed" ||
                         error.code == "IllegalLocationConstraintException";
  if (!misplaced && region.empty()) return false;
  if (moved && region.empty()) {
    std::string named(response.header("location"));
    if (named.empty() && !error.endpoint.empty()) named = "https://" + error.endpoint;
    const std::string from = home.endpoint.empty() ? amazon(home.region) : home.endpoint;
    if (split_url(named)) home.endpoint = redirected_endpoint(from, named, place);
    // If the host has the bucket's name already, it is not added again (Signer::request).
  }
  if (home.region == before.region && home.endpoint == before.endpoint) return false;
  const MutexLock lock(fork_safe_lock());
  homes_[bucket] = home;
  return true;
}

/// Works with the current keys. If these are refused as expired, tries once more with others.
template <typename Work>
auto S3Source::with_signer(Work&& work) const {
  if (options_.anonymous) return work(Signer(*this, std::nullopt));
  const S3Key key = credentials_.get();
  try {
    return work(Signer(*this, key));
  } catch (const KeysEnded&) {
    if (!credentials_.renew(key)) throw;
  }
  return work(Signer(*this, credentials_.get()));
}

RemoteListing S3Source::list(const std::string& directory, bool one_level,
                             size_t max_objects) const {
  return with_signer(
      [&](const Signer& signer) { return list(directory, one_level, max_objects, signer); });
}

RemoteListing S3Source::list(const std::string& directory, bool one_level, size_t max_objects,
                             const Signer& signer) const {
  S3Location at = parse_s3_uri(directory);
  const std::string root = std::string(kScheme) + at.bucket + "/";
  if (!at.key.empty() && at.key.back() != '/') at.key += '/';
  S3List pages(at, one_level, signer);
  RemoteListing listing;
  do {
    engine_.get().run(pages);
    for (const RemoteObject& object : pages.page().objects) {
      listing.objects.push_back({root + object.path, object.size_bytes, object.etag});
    }
    for (std::string prefix : pages.page().prefixes) {
      if (prefix.ends_with('/')) prefix.pop_back();
      listing.folders.push_back(root + prefix);
    }
    if (listing.objects.size() >= max_objects && pages.page().truncated) {
      listing.complete = false;
      break;
    }
  } while (pages.page().truncated);
  return listing;
}

RemoteListing S3Source::list_tree(const std::string& directory, size_t max_objects) const {
  return list(directory, false, max_objects);
}

RemoteListing S3Source::list_folder(const std::string& directory) const {
  return list(directory, true, SIZE_MAX);
}

void S3Source::read(std::span<RemoteRead> reads) const {
  with_signer([&](const Signer& signer) {
    std::vector<std::unique_ptr<S3Range>> ranges;
    std::vector<Transfer*> transfers;
    for (RemoteRead& read : reads) {
      ranges.push_back(std::make_unique<S3Range>(read, signer));
      transfers.push_back(ranges.back().get());
    }
    engine_.get().run(transfers);
  });
}

}  // namespace penstock::io
