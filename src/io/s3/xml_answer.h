#pragma once

#include <penstock/error.h>

#include <string>
#include <string_view>
#include <vector>

#include "io/remote/object_source.h"

// Parses S3's XML responses: a page of a listing, an error. Source: Amazon S3 API reference,
// ListObjectsV2 and "Error responses". Namespaces are ignored, because servers differ.

namespace penstock::io {

struct ListPage {
  std::vector<RemoteObject> objects;  ///< paths are keys
  std::vector<std::string> prefixes;  ///< with a trailing slash
  bool truncated = false;
  std::string continuation_token;
};

/// The response is garbled or not a listing; a retry may help.
class NoListing : public CorruptData {
 public:
  using CorruptData::CorruptData;
};

/// Throws NoListing if it is not a listing, CorruptData if an object's size is not a number.
ListPage parse_list_page(std::string_view xml);

struct S3Error {
  std::string code, message, region, endpoint;
};

/// Empty fields for anything else.
S3Error parse_s3_error(std::string_view xml);

}  // namespace penstock::io
