#include <penstock/error.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "io/http/http_message.h"
#include "io/http/index_manifest.h"
#include "io/s3/credentials.h"
#include "io/s3/shared_config.h"
#include "io/s3/sigv4.h"
#include "io/s3/xml_answer.h"

// Parses any bytes as text of servers and shared files: listings, errors, manifests, header fields,
// credentials, config files. The first byte chooses the parser.

using namespace penstock;
using namespace penstock::io;

namespace {

void require(bool holds) {
  if (!holds) __builtin_trap();
}

void read_headers(std::string_view text) {
  HttpResponse response;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    add_header_line(text.substr(0, end), response.headers);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  for (const auto& field : response.headers) {
    const std::string& value = field.second;
    if (const auto range = parse_content_range(value)) {
      require(range->range.length != 0 && range->range.end() <= range->total);
    }
    parse_retry_after(value);
    split_url(value);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    switch (data[0] % 7) {
      case 0:
        parse_list_page(text);
        break;
      case 1:
        parse_s3_error(text);
        break;
      case 2:
        for (const auto& object : parse_index(text, "http://host/d")) {
          require(object.path.starts_with("http://host/d/"));
          require(object.path.find("/../") == std::string::npos);
        }
        break;
      case 3:
        read_headers(text);
        break;
      case 4:
        parse_config(text);
        break;
      case 5:
        parse_credentials_json(text);
        parse_rfc3339(text);
        break;
      default:
        require(percent_decode(percent_encode(text, true)) == text);
        canonical_query({{std::string(text), std::string(text)}});
    }
  } catch (const Error&) {
  }
  return 0;
}
