#include "io/s3/credentials.h"

#include <penstock/error.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>

#include "io/http/range_transfer.h"
#include "io/http/redirect.h"
#include "io/remote/fork_safe_lock.h"
#include "io/url_secrets.h"

namespace penstock::io {
namespace {

using Clock = std::chrono::system_clock;

constexpr auto kRefreshBefore = std::chrono::minutes(5);
constexpr const char* kContainerHost = "http://169.254.170.2";
constexpr const char* kInstanceHost = "http://169.254.169.254";

/// The configured method that only botocore has; empty if there is none.
std::string what_needs_botocore(const ConfigSection& profile) {
  if (profile.contains("sso_session") || profile.contains("sso_start_url")) return "SSO";
  if (profile.contains("web_identity_token_file") ||
      !environment_text("AWS_WEB_IDENTITY_TOKEN_FILE").empty()) {
    return "a web identity";
  }
  if (profile.contains("role_arn")) return "a role";
  return profile.contains("credential_process") ? "credential_process" : "";
}

HttpOptions metadata_patience() {
  HttpOptions options;
  options.connect_timeout_seconds = 1;
  options.stall_timeout_seconds = 2;
  options.retry_timeout_seconds = 3;
  options.max_attempts = 2;
  return options;
}

/// A small request to a service of the machine; null unless the status is 200.
class MetadataRequest final : public Transfer {
 public:
  MetadataRequest(std::string method, std::string url, std::vector<HttpField> headers)
      : method_(std::move(method)), url_(std::move(url)), headers_(std::move(headers)) {}

  HttpRequest prepare() override { return {method_, url_, headers_, false}; }
  Verdict judge(const HttpResponse& response) override {
    Verdict verdict;
    if (retry_later(response, verdict)) return verdict;
    if (response.status == 200) text_ = response.text;
    return {};
  }
  std::string place() const override { return url_; }

  static std::optional<std::string> ask(HttpEngine& engine, std::string method, std::string url,
                                        std::vector<HttpField> headers) {
    MetadataRequest request(std::move(method), std::move(url), std::move(headers));
    try {
      engine.run(request);
    } catch (const IoError&) {
      return std::nullopt;  // no such service here
    }
    return request.text_;
  }

 private:
  const std::string method_, url_;
  const std::vector<HttpField> headers_;
  std::optional<std::string> text_;
};

std::string first_line(const std::string& text) {
  return text.substr(0, text.find_first_of("\r\n"));
}

std::string file_text(const std::string& path) { return first_line(text_of_file(path)); }

std::optional<S3Credentials> keys_of(const std::string& id, const std::string& secret,
                                     const std::string& token) {
  if (id.empty() || secret.empty()) return std::nullopt;
  return S3Credentials{{id, secret, token}, std::nullopt};
}

/// Throws for characters that would break the request, such as a newline copied from a file.
void check_characters(const S3Key& key) {
  for (const auto& [name, text] : {std::pair("access key id", &key.access_key_id),
                                   std::pair("secret access key", &key.secret_access_key),
                                   std::pair("session token", &key.session_token)}) {
    if (std::all_of(text->begin(), text->end(), [](char c) { return c > ' ' && c < 127; }))
      continue;
    throw InvalidArgument("the S3 " + std::string(name) +
                          " has a blank, a line break or another character that no key has");
  }
}

std::string setting(const ConfigSection& profile, const char* name) {
  const auto found = profile.find(name);
  return found == profile.end() ? std::string() : found->second;
}

}  // namespace

std::optional<Clock::time_point> parse_rfc3339(std::string_view text) {
  const auto number = [&](size_t begin, size_t length) -> int {
    int value = 0;
    if (begin + length > text.size()) return -1;
    for (const char c : text.substr(begin, length)) {
      if (c < '0' || c > '9') return -1;
      value = value * 10 + (c - '0');
    }
    return value;
  };
  if (text.size() < 20 || text[4] != '-' || text[7] != '-' || text[10] != 'T' || text[13] != ':' ||
      text[16] != ':') {
    return std::nullopt;
  }
  std::tm time{};
  const int year = number(0, 4), month = number(5, 2), day = number(8, 2);
  time.tm_hour = number(11, 2);
  time.tm_min = number(14, 2);
  time.tm_sec = number(17, 2);
  if (year < 1970 || month < 1 || month > 12 || day < 1 || day > 31 || time.tm_hour < 0 ||
      time.tm_hour > 23 || time.tm_min < 0 || time.tm_min > 59 || time.tm_sec < 0 ||
      time.tm_sec > 60) {
    return std::nullopt;
  }
  time.tm_year = year - 1900;
  time.tm_mon = month - 1;
  time.tm_mday = day;
  size_t at = 19;
  if (text[at] == '.') at = std::min(text.find_first_not_of("0123456789", at + 1), text.size());
  const std::string_view zone = text.substr(at);
  if (zone != "Z" && zone != "+00:00") return std::nullopt;
  return Clock::from_time_t(::timegm(&time));
}

std::optional<S3Credentials> parse_credentials_json(std::string_view json) {
  const auto answer = nlohmann::json::parse(json, nullptr, false);
  if (!answer.is_object()) return std::nullopt;
  const auto text = [&](const char* name) {
    const auto found = answer.find(name);
    return found != answer.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  auto found = keys_of(text("AccessKeyId"), text("SecretAccessKey"), text("Token"));
  if (found) found->end = parse_rfc3339(text("Expiration"));
  return found;
}

S3CredentialChain::S3CredentialChain(S3CredentialOptions options)
    : options_(std::move(options)), engine_(metadata_patience()) {}

S3CredentialChain::~S3CredentialChain() {
  if (process_id_ == ::getpid()) delete held_;
}

S3CredentialChain::Held& S3CredentialChain::held() {
  const MutexLock lock(fork_safe_lock());
  if (process_id_ != ::getpid()) {
    held_ = new Held;  // the parent's is leaked
    process_id_ = ::getpid();
  }
  return *held_;
}

S3Key S3CredentialChain::get() {
  Held& held = this->held();
  const MutexLock lock(held.mutex);
  auto& keys = held.keys;
  const auto now = Clock::now();
  if (keys && (!keys->end || *keys->end - now > kRefreshBefore)) return keys->key;
  auto found = find();
  if (found) {
    check_characters(found->key);
    keys = std::move(found);
  } else if (!keys || *keys->end <= now) {
    check_fallback();
    throw IoError(
        "no credentials for S3; give storage_options={\"anonymous\": True} for a public bucket, or "
        "access_key_id and secret_access_key, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
        "or AWS_PROFILE. Looked at: arguments, environment, profile \"" +
        profile_name(options_.profile) +
        "\" of the shared config files, container and instance metadata" +
        (options_.fallback ? ", botocore" : " (SSO, roles and credential_process need botocore)"));
  }
  return keys->key;
}

bool S3CredentialChain::renew(const S3Key& refused) {
  const auto same = [&](const S3Key& key) {
    return key.access_key_id == refused.access_key_id &&
           key.secret_access_key == refused.secret_access_key &&
           key.session_token == refused.session_token;
  };
  Held& held = this->held();
  const MutexLock lock(held.mutex);
  if (held.keys && !same(held.keys->key)) return true;  // by another thread
  auto found = find();
  if (!found || same(found->key)) return false;
  held.keys = std::move(found);
  return true;
}

/// Throws if the configured method needs the fallback but there is none.
void S3CredentialChain::check_fallback() const {
  if (options_.fallback) return;
  const std::string name = profile_name(options_.profile);
  const std::string what = what_needs_botocore(load_profile(name));
  if (what.empty()) return;
  throw IoError("no credentials for S3: " + what + " (profile \"" + name +
                "\") needs botocore, which is not there: pip install 'penstock[s3]'");
}

std::optional<S3Credentials> S3CredentialChain::find() {
  const S3Key& given = options_.given;
  if (!given.access_key_id.empty()) return S3Credentials{given, std::nullopt};
  if (options_.profile.empty()) {
    auto found =
        keys_of(environment_text("AWS_ACCESS_KEY_ID"), environment_text("AWS_SECRET_ACCESS_KEY"),
                environment_text("AWS_SESSION_TOKEN"));
    if (found) return found;
  }
  const ConfigSection profile = load_profile(profile_name(options_.profile));
  if (!what_needs_botocore(profile).empty()) {
    if (auto found = from_fallback()) return found;
  }
  if (auto found =
          keys_of(setting(profile, "aws_access_key_id"), setting(profile, "aws_secret_access_key"),
                  setting(profile, "aws_session_token"))) {
    return found;
  }
  if (auto found = from_container()) return found;
  return from_instance();
}

std::optional<S3Credentials> S3CredentialChain::from_fallback() {
  if (!options_.fallback) return std::nullopt;
  const auto keys = options_.fallback(options_.profile);
  const auto text = [&](const char* name) { return setting(keys, name); };
  auto found = keys_of(text("access_key_id"), text("secret_access_key"), text("session_token"));
  if (found) found->end = parse_rfc3339(text("expiration"));
  return found;
}

namespace {

/// Throws unless the token may be sent there: encrypted, or without leaving the machine. Source:
/// the hosts that botocore allows (ContainerMetadataFetcher).
void check_container_address(const std::string& url) {
  const std::string origin = origin_of(url);
  if (origin.starts_with("https://") && secret_part_of(url) != "a user or password") return;
  for (const char* host :
       {"127.0.0.1", "[::1]", "localhost", "169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"}) {
    if (origin.starts_with("http://" + std::string(host) + ":") &&
        secret_part_of(url) != "a user or password") {
      return;
    }
  }
  throw InvalidArgument(
      "AWS_CONTAINER_CREDENTIALS_FULL_URI must be an https:// address, or http:// of this machine "
      "or of the container's credential service, without user and password, got " +
      shown_address(url));
}

}  // namespace

std::optional<S3Credentials> S3CredentialChain::from_container() {
  std::string url = environment_text("AWS_CONTAINER_CREDENTIALS_FULL_URI");
  const std::string relative = environment_text("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  if (!relative.empty()) url = kContainerHost + relative;
  if (url.empty()) return std::nullopt;
  check_container_address(url);
  std::string token = environment_text("AWS_CONTAINER_AUTHORIZATION_TOKEN");
  const std::string token_file = environment_text("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
  if (!token_file.empty()) token = file_text(token_file);
  std::vector<HttpField> headers;
  if (!token.empty()) headers.emplace_back("Authorization", token);
  const auto answer = MetadataRequest::ask(engine_.get(), "GET", url, headers);
  return answer ? parse_credentials_json(*answer) : std::nullopt;
}

std::optional<S3Credentials> S3CredentialChain::from_instance() {
  if (environment_text("AWS_EC2_METADATA_DISABLED") == "true") return std::nullopt;
  std::string host = environment_text("AWS_EC2_METADATA_SERVICE_ENDPOINT");
  if (host.empty()) host = kInstanceHost;
  while (host.ends_with('/')) host.pop_back();
  HttpEngine& engine = engine_.get();
  const auto token = MetadataRequest::ask(engine, "PUT", host + "/latest/api/token",
                                          {{"X-aws-ec2-metadata-token-ttl-seconds", "21600"}});
  if (!token) return std::nullopt;
  const std::vector<HttpField> headers{{"X-aws-ec2-metadata-token", first_line(*token)}};
  const std::string roles = host + "/latest/meta-data/iam/security-credentials/";
  const auto role = MetadataRequest::ask(engine, "GET", roles, headers);
  if (!role || first_line(*role).empty()) return std::nullopt;
  const auto answer = MetadataRequest::ask(engine, "GET", roles + first_line(*role), headers);
  return answer ? parse_credentials_json(*answer) : std::nullopt;
}

}  // namespace penstock::io
