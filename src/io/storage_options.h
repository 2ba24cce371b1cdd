#pragma once

#include <penstock/storage_options.h>

#include <memory>
#include <string>

#include "io/store.h"

// Makes stores from StorageOptions.

namespace penstock::io {

class S3Source;

/// The store that serves `uri`: a plain path or file:// URI, http(s)://, s3://. Throws Unsupported
/// for other schemes, and InvalidArgument for options that the scheme does not have.
StorePtr store_for(const std::string& uri, const StorageOptions& options);

/// Throws InvalidArgument for an address or options that S3 does not have.
std::shared_ptr<S3Source> s3_source_for(const std::string& uri, const StorageOptions& options);

/// Whether the store that serves `root` also serves `uri`.
bool same_store(const std::string& root, const std::string& uri);

}  // namespace penstock::io
