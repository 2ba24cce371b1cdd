#pragma once

#include <penstock/data_type.h>

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_reader.h"
#include "codec/tile/filter_pipeline.h"
#include "format/tiledb/schema/nd_range.h"
#include "io/store.h"

// An array's schema: dimensions, attributes, orders, filters, current domain, enumeration files.
// Source: format_spec/array_schema.md and, where it is silent (an attribute's enumeration name,
// version 20 on; the real field order of a dimension label), tiledb/sm/array_schema/*.cc.
//
// A plain value, filled once by parse or load and then only read; shared by threads as a
// shared_ptr<const ArraySchema>. After schema evolution an array has several schemas; each fragment
// names its own.

namespace penstock::format::tiledb {

/// cell_val_num of variable-length fields.
inline constexpr uint32_t kVarNum = std::numeric_limits<uint32_t>::max();

enum class ArrayType : uint8_t { kDense = 0, kSparse = 1 };
enum class Layout : uint8_t {
  kRowMajor = 0,
  kColMajor = 1,
  kGlobalOrder = 2,
  kUnordered = 3,
  kHilbert = 4,
};
enum class DataOrder : uint8_t { kUnordered = 0, kIncreasing = 1, kDecreasing = 2 };

/// Returns "row-major", "hilbert", … as TileDB prints them.
std::string_view name_of(Layout layout);

struct Dimension {
  std::string name;
  DataType type = DataType::kInt64;
  uint32_t cell_val_num = 1;
  codec::FilterPipeline filters;  ///< the schema's coordinate filters if it has none of its own
  std::vector<std::byte> domain;  ///< min, max; empty for variable-length dimensions
  std::vector<std::byte> tile_extent;  ///< one value; empty: no extent

  bool var_length() const noexcept { return cell_val_num == kVarNum; }
  bool has_extent() const noexcept { return !tile_extent.empty(); }
  size_t cell_bytes() const { return size_of(type); }  ///< of a fixed-length coordinate

  /// For integer, date and time dimensions: bounds and extent. Unsigned 64-bit values keep their
  /// bits.
  int64_t domain_min() const;
  int64_t domain_max() const;
  int64_t extent() const;  ///< 0: no extent
};

struct Attribute {
  std::string name;
  DataType type = DataType::kInt32;
  uint32_t cell_val_num = 1;  ///< values a cell, kVarNum if it varies
  codec::FilterPipeline filters;
  std::vector<std::byte> fill_value;
  bool nullable = false;
  uint8_t fill_validity = 0;
  DataOrder order = DataOrder::kUnordered;
  std::string
      enumeration;  ///< name, a key of ArraySchema::enumeration_files; empty when there is none

  bool var_length() const noexcept { return cell_val_num == kVarNum; }
  bool has_enumeration() const noexcept { return !enumeration.empty(); }
  /// Bytes of a fixed-length cell (all its values).
  size_t cell_bytes() const { return size_of(type) * cell_val_num; }
};

struct ArraySchema {
  std::string name;  ///< file name, e.g. "__1730990991328_1730990991328_1f…"
  uint32_t format_version = 0;
  ArrayType type = ArrayType::kSparse;
  bool allows_duplicates = false;
  Layout tile_order = Layout::kRowMajor;
  Layout cell_order = Layout::kRowMajor;
  uint64_t capacity = 0;                   ///< cells of a sparse data tile
  codec::FilterPipeline coords_filters;    ///< also of t.tdb, dt.tdb and dci.tdb
  codec::FilterPipeline offsets_filters;   ///< offset tiles of variable-length fields (uint64)
  codec::FilterPipeline validity_filters;  ///< validity tiles (uint8)
  std::vector<Dimension> dimensions;
  std::vector<Attribute> attributes;
  std::map<std::string, std::string, std::less<>> enumeration_files;  ///< name -> file name
  NDRange current_domain;                                             ///< empty: none

  bool dense() const noexcept { return type == ArrayType::kDense; }
  std::optional<size_t> find_dimension(std::string_view name) const;
  std::optional<size_t> find_attribute(std::string_view name) const;

  /// Cells of a space tile of a dense array: the product of the extents.
  uint64_t cells_per_space_tile() const;

  /// Parses the inflated contents of a schema file.
  static ArraySchema parse(std::span<const std::byte> bytes, std::string name);
};

using ArraySchemaPtr = std::shared_ptr<const ArraySchema>;
/// Schemas by file name.
using ArraySchemas = std::map<std::string, ArraySchemaPtr, std::less<>>;

/// Reads and parses one schema file.
ArraySchemaPtr load_array_schema(const io::Store& store, const std::string& path);

}  // namespace penstock::format::tiledb
