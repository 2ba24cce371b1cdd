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

// pack.json: what a pack holds (docs/pack-format.md). It is written last, so that a folder with one
// is whole. Values.

namespace penstock::format::pack {

inline constexpr std::string_view kContentsName = "pack.json";
inline constexpr uint32_t kPackVersion = 2;

struct PackedLayerContents {
  std::string name;
  DataType value_type = DataType::kFloat32;
  int64_t rows = 0;  ///< shape, as that of the source
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
  std::string key;                              ///< of all that is packed, in hexadecimal
  std::optional<uint64_t> timestamp_ms;         ///< the source was opened as of then
  std::map<std::string, std::string> metadata;  ///< of the experiment, as text
  std::optional<RowSelection> rows;             ///< kept rows of obs; all when absent
  std::vector<PackedMeasurement> measurements;
  FileSums tables;  ///< of the files of obs and var; empty in older packs

  std::string to_json() const;
  /// CorruptData for what to_json() could not have written, Unsupported for a newer version.
  static PackContents from_json(std::string_view text);
  static PackContents load(const io::Store& store, const std::string& folder);

  /// NotFound that lists what there is; `place` is where.
  const PackedMeasurement& measurement(std::string_view wanted, const std::string& place) const;
};

/// NotFound that lists what there is.
const PackedLayerContents& layer_of(const PackedMeasurement& measurement, std::string_view wanted,
                                    const std::string& place);

/// Whether a name can be that of a folder or a file in one: no path, and nothing hidden.
bool plain_name(std::string_view name);

}  // namespace penstock::format::pack
