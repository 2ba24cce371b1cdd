#pragma once

#include <penstock/storage_options.h>

#include <string>

#include "io/store.h"

// From the names and texts of StorageOptions to stores.

namespace penstock::io {

/// The store that serves `uri`: a plain path or file:// URI, http(s)://, s3://. Other schemes are
/// Unsupported; options that the scheme does not know are InvalidArgument.
StorePtr store_for(const std::string& uri, const StorageOptions& options);

/// Whether the store that serves `root` serves `uri` as well.
bool same_store(const std::string& root, const std::string& uri);

}  // namespace penstock::io
