#pragma once

#include <penstock/data_type.h>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/tiledb/directory/timestamped_name.h"
#include "io/store.h"

// Key-value metadata of an array or a group (the folder __meta): soma_object_type,
// soma_encoding_version, …. Source: format_spec/metadata.md, tiledb/sm/metadata/metadata.cc.
//
// All visible files are read oldest first. A later entry or deletion of a key replaces the earlier
// one. A plain value.

namespace penstock::format::tiledb {

struct MetadataValue {
  DataType type = DataType::kStringUtf8;
  uint32_t count = 0;  ///< number of values; 0 for an empty entry
  std::vector<std::byte> bytes;

  /// The bytes as text, if the type is a one-byte string, character or blob type and the bytes are
  /// UTF-8; otherwise nothing.
  std::optional<std::string> as_string() const;
  /// The one value of an integer or boolean entry; otherwise nothing.
  std::optional<int64_t> as_int() const;
  /// The one value of a floating or integer entry; otherwise nothing.
  std::optional<double> as_double() const;
};

using Metadata = std::map<std::string, MetadataValue, std::less<>>;

/// Applies the entries of one inflated metadata file.
void apply_metadata(Metadata& metadata, std::span<const std::byte> bytes);

/// Returns the metadata of the array or group at `object_path`; empty if it has none.
Metadata load_metadata(const io::Store& store, const std::string& object_path,
                       const TimeRange& range = {});

/// Returns a key's text. Throws `NotFound` if it is missing, `CorruptData` if it is not text.
std::string metadata_string(const Metadata& metadata, std::string_view key,
                            std::string_view object_path);

}  // namespace penstock::format::tiledb
