#include "io/s3/sigv4.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <penstock/error.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <map>

#include "base/hash/hex.h"
#include "base/hash/sha256.h"

namespace penstock::io {
namespace {

constexpr std::string_view kEmptySha256 =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

std::string hex_of(std::string_view text) { return hex(std::as_bytes(std::span(text))); }

std::string hmac(std::string_view key, std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned length = 0;
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data(),
           &length) == nullptr) {
    throw Internal("OpenSSL has no HMAC");
  }
  return {reinterpret_cast<const char*>(digest.data()), length};
}

bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/// Trims blanks at both ends and replaces inner runs by one space.
std::string canonical_value(std::string_view value) {
  std::string text;
  for (const char c : value) {
    if (!is_blank(c)) {
      text += c;
    } else if (!text.empty() && text.back() != ' ') {
      text += ' ';
    }
  }
  if (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

std::string lower_case(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

}  // namespace

std::string canonical_query(std::vector<HttpField> query) {
  for (auto& [name, value] : query) {
    name = percent_encode(name, true);
    value = percent_encode(value, true);
  }
  std::sort(query.begin(), query.end());
  std::string text;
  for (const auto& [name, value] : query) {
    if (!text.empty()) text += '&';
    text.append(name).append(1, '=').append(value);
  }
  return text;
}

std::vector<HttpField> sign_request(const SigningRequest& request, const S3Key& key) {
  std::vector<HttpField> headers = request.headers;
  headers.emplace_back("X-Amz-Content-SHA256", kEmptySha256);
  headers.emplace_back("X-Amz-Date", request.timestamp);
  if (!key.session_token.empty()) headers.emplace_back("X-Amz-Security-Token", key.session_token);

  std::map<std::string, std::string> canonical{{"host", request.host}};
  for (const auto& [name, value] : headers) {
    std::string& all = canonical[lower_case(name)];
    all += (all.empty() ? "" : ",") + canonical_value(value);
  }
  std::string names;
  std::string text =
      request.method + "\n" + request.path + "\n" + canonical_query(request.query) + "\n";
  for (const auto& [name, value] : canonical) {
    text.append(name).append(1, ':').append(value).append(1, '\n');
    names += (names.empty() ? "" : ";") + name;
  }
  text += "\n" + names + "\n" + std::string(kEmptySha256);

  const std::string date = request.timestamp.substr(0, 8);
  const std::string scope = date + "/" + request.region + "/s3/aws4_request";
  const std::string to_sign =
      "AWS4-HMAC-SHA256\n" + request.timestamp + "\n" + scope + "\n" + hex(sha256(text));
  std::string signing_key = hmac("AWS4" + key.secret_access_key, date);
  for (const std::string& step : {request.region, std::string("s3"), std::string("aws4_request")}) {
    signing_key = hmac(signing_key, step);
  }
  headers.emplace_back("Authorization", "AWS4-HMAC-SHA256 Credential=" + key.access_key_id + "/" +
                                            scope + ", SignedHeaders=" + names +
                                            ", Signature=" + hex_of(hmac(signing_key, to_sign)));
  return headers;
}

std::string signing_time() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  std::array<char, 32> text;
  return {text.data(), std::strftime(text.data(), text.size(), "%Y%m%dT%H%M%SZ", &utc)};
}

}  // namespace penstock::io
