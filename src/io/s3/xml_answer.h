#pragma once

#include <penstock/error.h>

#include <string>
#include <string_view>
#include <vector>

#include "io/remote/object_source.h"

// The XML that S3 answers with: a page of a listing, an error. Source: Amazon S3 API reference,
// ListObjectsV2 and "Error responses". Namespaces are ignored, since servers differ.

namespace penstock::io {

struct ListPage {
  std::vector<RemoteObject> objects;  ///< paths are keys
  std::vector<std::string> prefixes;  ///< with the slash at their ends
  bool truncated = false;
  std::string continuation_token;
};

/// The answer came through garbled, or another than a listing was sent; the next may be good.
class NoListing : public CorruptData {
 public:
  using CorruptData::CorruptData;
};

/// NoListing where it is none, CorruptData for an object whose size is none.
ListPage parse_list_page(std::string_view xml);

struct S3Error {
  std::string code, message, region, endpoint;
};

/// Empty fields for anything else.
S3Error parse_s3_error(std::string_view xml);

}  // namespace penstock::io
