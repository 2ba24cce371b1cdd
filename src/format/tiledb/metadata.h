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
// All visible files are read oldest first; a later entry or deletion of a key replaces the earlier.
// A plain value.

namespace penstock::format::tiledb {

struct MetadataValue {
  DataType type = DataType::kStringUtf8;
  uint32_t count = 0;  ///< values; 0 for an empty one
  std::vector<std::byte> bytes;

  /// The bytes as text when the type is a string, character or blob type of one byte and they are
  /// UTF-8; nothing otherwise.
  std::optional<std::string> as_string() const;
  /// The one value of an integer or boolean entry; nothing when it is something else.
  std::optional<int64_t> as_int() const;
  /// The one value of a floating or integer entry; nothing when it is something else.
  std::optional<double> as_double() const;
};

using Metadata = std::map<std::string, MetadataValue, std::less<>>;

/// Applies the entries of one inflated metadata file.
void apply_metadata(Metadata& metadata, std::span<const std::byte> bytes);

/// The metadata of the array or group at `object_path`; empty when it has none.
Metadata load_metadata(const io::Store& store, const std::string& object_path,
                       const TimeRange& range = {});

/// A key's text. `NotFound` when it is missing, `CorruptData` when it is no text.
std::string metadata_string(const Metadata& metadata, std::string_view key,
                            std::string_view object_path);

}  // namespace penstock::format::tiledb
