#include "io/url_secrets.h"

#include <penstock/error.h>

#include <algorithm>

#include "io/store.h"

namespace penstock::io {
namespace {

constexpr std::string_view kMark = "://";

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

bool is_web(std::string_view scheme) { return lower(scheme) == "http" || lower(scheme) == "https"; }

/// curl takes "http:///host" for "http://host".
std::string_view without_slashes(std::string_view rest) {
  return rest.substr(std::min(rest.find_first_not_of('/'), rest.size()));
}

/// "//user:password@host": the scheme is missing.
bool has_no_scheme(std::string_view address) {
  if (!address.starts_with("//")) return false;
  const std::string_view rest = without_slashes(address);
  const size_t at = rest.substr(0, rest.find('/')).find('@');
  return at != std::string_view::npos && rest.substr(0, at).find(':') != std::string_view::npos;
}

/// "http:/host", "https;//host", "http//host": no path that anyone has.
bool is_mistyped_web(std::string_view address) {
  const std::string begin = lower(address.substr(0, std::string_view("https://").size()));
  if (!begin.starts_with("http")) return false;
  const std::string_view rest = std::string_view(begin).substr(begin.starts_with("https") ? 5 : 4);
  return rest.starts_with(':') || rest.starts_with(';') || rest.starts_with("//");
}

/// "simplecache::https://user@host", "https%3A//user@host": a web address within another one, or
/// one whose colon is something else.
bool has_web_inside(std::string_view address) {
  const std::string text = lower(address);
  const size_t web = text.find("http");
  if (web == std::string::npos || web > text.find('/')) return false;
  const size_t end = web + (text.compare(web, 5, "https") == 0 ? 5 : 4);
  const size_t slash = text.find('/', end);
  if (slash == std::string::npos || slash == end) return false;
  const bool is_colon = text[end] == ':' || text[end] == '%' || (text[end] & 0x80) != 0;
  return is_colon && text.find('@', slash) != std::string::npos;
}

/// Whether '?' and '#' are plain characters of names in this scheme.
bool has_plain_names(std::string_view scheme) { return scheme == "s3" || scheme == "file"; }

// Place of the colon of a port or a password; npos if there is none.
size_t colon_of(std::string_view authority) {
  const size_t bracket = authority.rfind(']');  // of an IPv6 address
  return authority.find(':', bracket == std::string_view::npos ? 0 : bracket);
}

// A password may contain a slash, which ends the host for a strict URL parser. Then the port is not
// a number, or an '@' follows later.
bool has_password(std::string_view rest) {
  const std::string_view authority = rest.substr(0, rest.find_first_of("/?#"));
  if (authority.find('@') != std::string_view::npos) return true;
  const std::string escaped = lower(authority);  // no host has these characters
  if (escaped.find("%40") != escaped.npos || escaped.find("%3a") != escaped.npos) return true;
  const size_t colon = colon_of(authority);
  if (colon == std::string_view::npos || authority.starts_with("arn:")) return false;
  return authority.find_first_not_of("0123456789", colon + 1) != std::string_view::npos ||
         rest.find('@') != std::string_view::npos;
}

/// The address without leading characters that cannot begin a scheme, such as a pasted blank or
/// quote.
std::string_view from_scheme(std::string_view address) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto first = std::find_if(address.begin(), address.end(), is_letter);
  return address.substr(static_cast<size_t>(first - address.begin()));
}

}  // namespace

std::string secret_part_of(std::string_view address) {
  if (has_no_scheme(address)) return "a mistyped scheme";
  address = from_scheme(address);
  const std::string scheme = scheme_of(address);
  if (scheme.empty()) {
    const bool may_have = is_mistyped_web(address) && address.find_first_of("@?#") != address.npos;
    return may_have || has_web_inside(address) ? "a mistyped scheme" : "";
  }
  std::string_view rest = address.substr(scheme.size() + kMark.size());
  if (is_web(scheme)) rest = without_slashes(rest);
  if (has_password(rest)) return "a user or password";
  if (has_plain_names(scheme)) return {};
  if (rest.find('?') != std::string_view::npos) return "a query";
  if (rest.find('#') != std::string_view::npos) return "a fragment";
  return {};
}

void check_no_secrets(std::string_view what, std::string_view address) {
  const std::string part = secret_part_of(address);
  if (part.empty()) return;
  throw InvalidArgument(
      std::string(what) + " must have no user, password, query or fragment, got an address with " +
      part +
      ", which is not shown here. Addresses appear in messages and are written into packs. Give "
      "credentials in storage_options: headers such as Authorization for http(s), access_key_id "
      "and secret_access_key for S3. In the name of a folder '?' is written %3F, '#' %23 and '@' "
      "%40");
}

std::string shown_address(std::string_view address) {
  const size_t mark = address.find(kMark);
  const size_t begin = mark == std::string_view::npos ? 0 : mark + kMark.size();
  std::string_view rest = address.substr(begin);
  if (is_web(scheme_of(address))) rest = without_slashes(rest);
  rest = rest.substr(0, rest.find_first_of("?#"));
  const size_t slash = std::min(rest.find('/'), rest.size());
  const size_t at = rest.substr(0, slash).rfind('@');
  if (at != std::string_view::npos) rest.remove_prefix(at + 1);
  return std::string(address.substr(0, begin)) + std::string(rest);
}

}  // namespace penstock::io
