#pragma once

#include <penstock/data_type.h>
#include <penstock/row_selection.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/pack/checked_store.h"
#include "io/store.h"

// pack.json: the contents of a pack (docs/reference/pack-format.md). It is written last, so a
// folder that has one is complete. Plain values.

namespace penstock::format::pack {

inline constexpr std::string_view kContentsName = "pack.json";
inline constexpr uint32_t kPackVersion = 2;

struct PackedLayerContents {
  std::string name;
  DataType value_type = DataType::kFloat32;
  int64_t rows = 0;  ///< shape of the source
  int64_t columns = 0;
  uint64_t nonzeros = 0;
  uint64_t stored_bytes = 0;
  std::string key;                 ///< of the row files, in hexadecimal
  std::vector<std::string> files;  ///< names, in the order of their rows
};

struct PackedMeasurement {
  std::string name;
  std::vector<PackedLayerContents> layers;
};

struct PackContents {
  std::string source;                           ///< URI that was packed
  std::string key;                              ///< of everything that is packed, in hexadecimal
  std::optional<uint64_t> timestamp_ms;         ///< timestamp at which the source was opened
  std::map<std::string, std::string> metadata;  ///< of the experiment, as text
  std::optional<RowSelection> rows;             ///< kept rows of obs; absent: all
  std::vector<PackedMeasurement> measurements;
  FileSums tables;  ///< files of obs and var; empty in older packs

  std::string to_json() const;
  /// Throws CorruptData for text that to_json() cannot have written, Unsupported for a newer
  /// version.
  static PackContents from_json(std::string_view text);
  static PackContents load(const io::Store& store, const std::string& folder);

  /// Throws NotFound that lists the measurements; `place` is named in the message.
  const PackedMeasurement& measurement(std::string_view wanted, const std::string& place) const;
};

/// Throws NotFound that lists the layers.
const PackedLayerContents& layer_of(const PackedMeasurement& measurement, std::string_view wanted,
                                    const std::string& place);

/// Whether a name may be that of a folder or a file in a folder: no path, not hidden.
bool plain_name(std::string_view name);

}  // namespace penstock::format::pack
