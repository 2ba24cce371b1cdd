#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/range_coalescing.h"

// What is asked of an HTTP server and what came back, as plain values, and the header fields that
// ranges need. Source: RFC 9110. Parsers accept any bytes.

namespace penstock::io {

using HttpField = std::pair<std::string, std::string>;

/// Listings have at most 1,000 keys of 1 KiB.
inline constexpr size_t kMaxTextBytes = 16 << 20;

struct HttpRequest {
  std::string method = "GET";
  std::string url;
  std::vector<HttpField> headers;
  bool use_proxy = true;
  size_t max_text_bytes = kMaxTextBytes;  ///< of a 2xx answer without a sink
};

struct HttpResponse {
  int status = 0;                  ///< 0: there was none
  std::vector<HttpField> headers;  ///< of the last response, names in lower case
  std::string text;                ///< the body of a transfer without a sink, or of an error
  uint64_t body_bytes = 0;
  bool too_long = false;  ///< the body was longer than the sink, or than a text may be
  bool stalled = false;
  bool refused = false;  ///< will not be better the next time: TLS, a bad URL
  std::string failure;   ///< what went wrong on the way; empty when the transfer ended well

  /// Empty when there is none.
  std::string_view header(std::string_view lower_case_name) const noexcept;
};

/// Takes a header line into `headers`; a status line clears them.
void add_header_line(std::string_view line, std::vector<HttpField>& headers);

struct ContentRange {
  ByteRange range;
  uint64_t total = 0;
};
/// "bytes 0-99/1234"; nothing for another form or an unknown total.
std::optional<ContentRange> parse_content_range(std::string_view text);

/// Seconds, at most a day, of a number or a date. A date is taken from `date`, the server's own, so
/// that clocks may differ; from this machine's where that is none.
std::optional<double> parse_retry_after(std::string_view text, std::string_view date = {});

std::optional<uint64_t> parse_decimal(std::string_view text);

/// Everything but A-Z a-z 0-9 - . _ ~ as %XX; '/' stays unless `encode_slash`.
std::string percent_encode(std::string_view text, bool encode_slash);
std::string percent_decode(std::string_view text);

struct UrlParts {
  std::string scheme, host;  ///< host with the port
  std::string path, query;   ///< as written; the query without '?'
};
/// Nothing without a scheme or a host.
std::optional<UrlParts> split_url(std::string_view url);

}  // namespace penstock::io
