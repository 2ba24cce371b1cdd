#include "io/http/http_message.h"

#include <curl/curl.h>

#include <algorithm>
#include <charconv>
#include <ctime>

namespace penstock::io {
namespace {

std::string_view trimmed(std::string_view text) {
  const char* const blanks = " \t\r\n";
  const size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool unreserved(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = lower(c);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// Seconds since 1970. All three forms of RFC 9110 begin with a day's name.
std::optional<int64_t> parse_date(std::string_view text) {
  if (text.empty() || lower(text.front()) < 'a' || lower(text.front()) > 'z') return std::nullopt;
  const time_t time = curl_getdate(std::string(text).c_str(), nullptr);
  if (time < 0) return std::nullopt;
  return static_cast<int64_t>(time);
}

}  // namespace

std::string_view HttpResponse::header(std::string_view lower_case_name) const noexcept {
  for (const HttpField& field : headers) {
    if (field.first == lower_case_name) return field.second;
  }
  return {};
}

void add_header_line(std::string_view line, std::vector<HttpField>& headers) {
  if (line.starts_with("HTTP/")) {
    headers.clear();
    return;
  }
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return;
  std::string name(trimmed(line.substr(0, colon)));
  std::transform(name.begin(), name.end(), name.begin(), lower);
  headers.emplace_back(std::move(name), std::string(trimmed(line.substr(colon + 1))));
}

std::optional<uint64_t> parse_decimal(std::string_view text) {
  uint64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || result.ec != std::errc() || result.ptr != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

std::optional<ContentRange> parse_content_range(std::string_view text) {
  text = trimmed(text);
  if (!text.starts_with("bytes ")) return std::nullopt;
  text.remove_prefix(6);
  const size_t dash = text.find('-');
  const size_t slash = text.find('/');
  if (dash == std::string_view::npos || slash == std::string_view::npos || dash > slash) {
    return std::nullopt;
  }
  const auto first = parse_decimal(text.substr(0, dash));
  const auto last = parse_decimal(text.substr(dash + 1, slash - dash - 1));
  const auto total = parse_decimal(text.substr(slash + 1));
  if (!first || !last || !total || *last < *first || *last >= *total) return std::nullopt;
  return ContentRange{{*first, *last - *first + 1}, *total};
}

std::optional<double> parse_retry_after(std::string_view text, std::string_view date) {
  constexpr int64_t kLongest = 86'400;
  text = trimmed(text);
  if (const auto seconds = parse_decimal(text)) {
    return static_cast<double>(std::min<uint64_t>(*seconds, kLongest));
  }
  const auto then = parse_date(text);
  if (!then) return std::nullopt;
  const int64_t now = parse_date(trimmed(date)).value_or(std::time(nullptr));
  return static_cast<double>(std::clamp<int64_t>(*then - now, 0, kLongest));
}

std::string percent_encode(std::string_view text, bool encode_slash) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  encoded.reserve(text.size());
  for (const char c : text) {
    if (unreserved(c) || (c == '/' && !encode_slash)) {
      encoded += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      encoded += '%';
      encoded += kDigits[byte >> 4];
      encoded += kDigits[byte & 15];
    }
  }
  return encoded;
}

std::string percent_decode(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      const int high = hex_value(text[i + 1]);
      const int low = hex_value(text[i + 2]);
      if (high >= 0 && low >= 0) {
        decoded += static_cast<char>(high * 16 + low);
        i += 2;
        continue;
      }
    }
    decoded += text[i];
  }
  return decoded;
}

std::optional<UrlParts> split_url(std::string_view url) {
  const size_t colon = url.find("://");
  if (colon == std::string_view::npos || colon == 0) return std::nullopt;
  UrlParts parts;
  parts.scheme = url.substr(0, colon);
  std::transform(parts.scheme.begin(), parts.scheme.end(), parts.scheme.begin(), lower);
  url.remove_prefix(colon + 3);
  const size_t host_end = std::min(url.find_first_of("/?#"), url.size());
  parts.host = url.substr(0, host_end);
  if (parts.host.empty()) return std::nullopt;
  url.remove_prefix(host_end);
  url = url.substr(0, url.find('#'));
  const size_t mark = std::min(url.find('?'), url.size());
  parts.path = url.substr(0, mark);
  if (mark < url.size()) parts.query = url.substr(mark + 1);
  return parts;
}

}  // namespace penstock::io
