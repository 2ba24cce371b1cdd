#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/range_coalescing.h"

// HTTP requests and responses as plain values, and the header fields that ranges need. Source: RFC
// 9110. Parsers accept any bytes.

namespace penstock::io {

using HttpField = std::pair<std::string, std::string>;

/// Listings have at most 1,000 keys of 1 KiB.
inline constexpr size_t kMaxTextBytes = 16 << 20;

struct HttpRequest {
  std::string method = "GET";
  std::string url;
  std::vector<HttpField> headers;
  bool use_proxy = true;
  size_t max_text_bytes = kMaxTextBytes;  ///< of a 2xx response without a sink
};

struct HttpResponse {
  int status = 0;                  ///< 0: no response
  std::vector<HttpField> headers;  ///< of the last response, names in lower case
  std::string text;                ///< the body of a transfer without a sink, or of an error
  uint64_t body_bytes = 0;
  bool too_long = false;  ///< the body was longer than the sink, or than max_text_bytes
  bool stalled = false;
  bool refused = false;  ///< a retry cannot help: TLS, a bad URL
  std::string failure;   ///< why the transfer failed; empty if it succeeded

  /// Empty if there is none.
  std::string_view header(std::string_view lower_case_name) const noexcept;
};

/// Adds a header line to `headers`; a status line clears them.
void add_header_line(std::string_view line, std::vector<HttpField>& headers);

struct ContentRange {
  ByteRange range;
  uint64_t total = 0;
};
/// "bytes 0-99/1234"; nothing for another form or an unknown total.
std::optional<ContentRange> parse_content_range(std::string_view text);

/// Delay in seconds, at most a day, from a number or a date. Dates are relative to `date`, the
/// server's clock, or to this machine's clock if `date` is not a date.
std::optional<double> parse_retry_after(std::string_view text, std::string_view date = {});

std::optional<uint64_t> parse_decimal(std::string_view text);

/// Escapes all but A-Z a-z 0-9 - . _ ~ as %XX; '/' stays unless `encode_slash`.
std::string percent_encode(std::string_view text, bool encode_slash);
std::string percent_decode(std::string_view text);

struct UrlParts {
  std::string scheme, host;  ///< host with the port
  std::string path, query;   ///< as written; the query without '?'
};
/// Null without a scheme or a host.
std::optional<UrlParts> split_url(std::string_view url);

}  // namespace penstock::io
