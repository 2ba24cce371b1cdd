#include "format/tiledb/schema/array_schema.h"

#include <penstock/error.h>

#include <algorithm>

#include "base/checked.h"
#include "base/concat.h"
#include "format/tiledb/generic_tile.h"
#include "format/tiledb/integer_value.h"

namespace penstock::format::tiledb {
namespace {

// Dimensions of version 5 on carry their own type and filters; TileDB 1.x wrote the older ones.
constexpr uint32_t kOldestSchemaVersion = 5;
constexpr uint32_t kNewestCurrentDomainVersion = 0;
// Far above any real array; each dimension may hold a copy of the coordinate filters.
constexpr uint32_t kMaxDimensions = 256;

DataType read_type(ByteReader& reader, std::string_view what) {
  const auto code = reader.read<uint8_t>(what);
  if (code > kLastDataType) {
    throw CorruptData(concat(what, " is unknown: ", code));
  }
  return static_cast<DataType>(code);
}

bool read_bool(ByteReader& reader, std::string_view what) {
  const auto value = reader.read<uint8_t>(what);
  if (value > 1) {
    throw CorruptData(concat(what, " is neither 0 nor 1: ", value));
  }
  return value != 0;
}

std::string read_name(ByteReader& reader, std::string_view what) {
  const auto length = reader.read<uint32_t>(what);
  return std::string(reader.take_name(length, what));
}

template <typename Enum>
Enum read_enum(ByteReader& reader, Enum last, std::string_view what) {
  const auto value = reader.read<uint8_t>(what);
  if (value > static_cast<uint8_t>(last)) {
    throw CorruptData(concat(what, " is unknown: ", value));
  }
  return static_cast<Enum>(value);
}

std::vector<std::byte> read_bytes(ByteReader& reader, uint64_t length, std::string_view what) {
  const auto view = reader.take(length, what);
  return {view.begin(), view.end()};
}

// Cells have few values; the product with the type's size must not overflow later.
void check_cell_val_num(uint32_t cell_val_num, const std::string& field) {
  if (cell_val_num == 0) throw CorruptData("cell_val_num of field " + field + " is 0");
}

Dimension read_dimension(ByteReader& reader, const ArraySchema& schema) {
  Dimension dimension;
  dimension.name = read_name(reader, "dimension name");
  dimension.type = read_type(reader, "dimension type");
  dimension.cell_val_num = reader.read<uint32_t>("dimension cell_val_num");
  if (dimension.cell_val_num != 1 && dimension.cell_val_num != kVarNum) {
    throw CorruptData(concat("cell_val_num of dimension ", dimension.name,
                             " is neither 1 nor variable: ", dimension.cell_val_num));
  }
  dimension.filters = codec::FilterPipeline::parse(reader, schema.format_version);
  if (dimension.filters.filters().empty()) dimension.filters = schema.coords_filters;

  const auto domain_bytes = reader.read<uint64_t>("dimension domain size");
  const uint64_t expected = dimension.var_length() ? 0 : 2 * dimension.cell_bytes();
  if (domain_bytes != expected) {
    throw CorruptData(concat("domain of dimension ", dimension.name, " has ", domain_bytes,
                             " bytes instead of ", expected));
  }
  dimension.domain = read_bytes(reader, domain_bytes, "dimension domain");
  if (!read_bool(reader, "null tile extent")) {
    dimension.tile_extent = read_bytes(reader, dimension.cell_bytes(), "tile extent");
  }
  return dimension;
}

Attribute read_attribute(ByteReader& reader, uint32_t version) {
  Attribute attribute;
  attribute.name = read_name(reader, "attribute name");
  attribute.type = read_type(reader, "attribute type");
  attribute.cell_val_num = reader.read<uint32_t>("attribute cell_val_num");
  check_cell_val_num(attribute.cell_val_num, attribute.name);
  attribute.filters = codec::FilterPipeline::parse(reader, version);
  if (version >= 6) {
    const auto length = reader.read<uint64_t>("fill value size");
    attribute.fill_value = read_bytes(reader, length, "fill value");
    if (!attribute.var_length() && length != attribute.cell_bytes()) {
      throw CorruptData(concat("fill value of attribute ", attribute.name, " has ", length,
                               " bytes instead of ", attribute.cell_bytes()));
    }
  }
  if (version >= 7) {
    attribute.nullable = read_bool(reader, "attribute nullable");
    attribute.fill_validity = reader.read<uint8_t>("fill value validity");
  }
  if (version >= 17) attribute.order = read_enum(reader, DataOrder::kDecreasing, "data order");
  if (version >= 20) attribute.enumeration = read_name(reader, "enumeration name");
  return attribute;
}

// Labels are separate arrays that SOMA never writes; only their length matters here. The field
// order follows tiledb/sm/array_schema/dimension_label.cc, because the specification has another.
void skip_dimension_label(ByteReader& reader) {
  reader.skip(4, "label dimension");
  read_name(reader, "label name");
  reader.skip(1, "label URI kind");
  reader.skip(reader.read<uint64_t>("label URI length"), "label URI");
  read_name(reader, "label attribute");
  reader.skip(1 + 1 + 4 + 1, "label order, type, cell_val_num, external flag");
}

NDRange read_current_domain(ByteReader& reader, std::span<const Dimension> dimensions) {
  const auto version = reader.read<uint32_t>("current domain version");
  if (version > kNewestCurrentDomainVersion) {
    throw Unsupported(
        concat("current domain has version ", version, "; a newer penstock may read it"));
  }
  if (read_bool(reader, "current domain empty flag")) return {};
  const auto type = reader.read<uint8_t>("current domain type");
  if (type != 0) throw Unsupported(concat("current domain is no rectangle: type ", type));
  return read_nd_range(reader, dimensions);
}

// Checks for orders that a schema may have; the others of Layout belong to queries.
void check_orders(const ArraySchema& schema) {
  const auto is_major = [](Layout layout) {
    return layout == Layout::kRowMajor || layout == Layout::kColMajor;
  };
  if (!is_major(schema.tile_order)) {
    throw CorruptData("tile order is " + std::string(name_of(schema.tile_order)));
  }
  if (!is_major(schema.cell_order) && schema.cell_order != Layout::kHilbert) {
    throw CorruptData("cell order is " + std::string(name_of(schema.cell_order)));
  }
}

void check(const ArraySchema& schema) {
  check_orders(schema);
  if (schema.dimensions.empty()) throw CorruptData("schema has no dimensions");
  if (!schema.dense() && schema.capacity == 0) throw CorruptData("capacity of a sparse array is 0");
  if (schema.dense()) {
    for (const Dimension& dimension : schema.dimensions) {
      const bool is_discrete =
          is_integer(dimension.type) || is_datetime(dimension.type) || is_time(dimension.type);
      if (dimension.var_length() || !is_discrete) {
        throw CorruptData("dense array has a dimension " + dimension.name + " of type " +
                          std::string(name_of(dimension.type)));
      }
      if (!dimension.has_extent()) {
        throw CorruptData("dense array has no tile extent along " + dimension.name);
      }
    }
    schema.cells_per_space_tile();
  }
  for (const Attribute& attribute : schema.attributes) {
    if (attribute.has_enumeration() && !schema.enumeration_files.contains(attribute.enumeration)) {
      throw CorruptData("attribute " + attribute.name +
                        " has an unknown enumeration: " + attribute.enumeration);
    }
  }
}

}  // namespace

std::string_view name_of(Layout layout) {
  switch (layout) {
    case Layout::kRowMajor:
      return "row-major";
    case Layout::kColMajor:
      return "col-major";
    case Layout::kGlobalOrder:
      return "global-order";
    case Layout::kUnordered:
      return "unordered";
    case Layout::kHilbert:
      return "hilbert";
  }
  return "unknown";
}

int64_t Dimension::domain_min() const {
  if (domain.empty()) throw Internal("dimension " + name + " has no domain");
  return read_integer(type, domain.data());
}

int64_t Dimension::domain_max() const {
  if (domain.empty()) throw Internal("dimension " + name + " has no domain");
  return read_integer(type, domain.data() + cell_bytes());
}

int64_t Dimension::extent() const {
  return tile_extent.empty() ? 0 : read_integer(type, tile_extent.data());
}

std::optional<size_t> ArraySchema::find_dimension(std::string_view wanted) const {
  const auto found = std::find_if(dimensions.begin(), dimensions.end(),
                                  [&](const Dimension& d) { return d.name == wanted; });
  if (found == dimensions.end()) return std::nullopt;
  return static_cast<size_t>(found - dimensions.begin());
}

std::optional<size_t> ArraySchema::find_attribute(std::string_view wanted) const {
  const auto found = std::find_if(attributes.begin(), attributes.end(),
                                  [&](const Attribute& a) { return a.name == wanted; });
  if (found == attributes.end()) return std::nullopt;
  return static_cast<size_t>(found - attributes.begin());
}

uint64_t ArraySchema::cells_per_space_tile() const {
  uint64_t cells = 1;
  for (const Dimension& dimension : dimensions) {
    const auto extent = static_cast<uint64_t>(dimension.extent());
    if (dimension.extent() <= 0 && dimension.type != DataType::kUInt64) {
      throw CorruptData(
          concat("tile extent along ", dimension.name, " is not positive: ", dimension.extent()));
    }
    cells = checked_mul(cells, extent, "cells of a space tile");
  }
  if (cells == 0) throw CorruptData("a tile extent is 0");
  return cells;
}

ArraySchema ArraySchema::parse(std::span<const std::byte> bytes, std::string schema_name) {
  ByteReader reader(bytes);
  ArraySchema schema;
  schema.name = std::move(schema_name);
  schema.format_version = reader.read<uint32_t>("schema version");
  if (schema.format_version < kOldestSchemaVersion ||
      schema.format_version > kNewestFormatVersion) {
    throw Unsupported(concat("array schema has format version ", schema.format_version,
                             "; read are ", kOldestSchemaVersion, " to ", kNewestFormatVersion));
  }
  const uint32_t version = schema.format_version;
  schema.allows_duplicates = read_bool(reader, "allows duplicates");
  schema.type = read_enum(reader, ArrayType::kSparse, "array type");
  schema.tile_order = read_enum(reader, Layout::kHilbert, "tile order");
  schema.cell_order = read_enum(reader, Layout::kHilbert, "cell order");
  schema.capacity = reader.read<uint64_t>("capacity");
  schema.coords_filters = codec::FilterPipeline::parse(reader, version);
  schema.offsets_filters = codec::FilterPipeline::parse(reader, version);
  if (version >= 7) schema.validity_filters = codec::FilterPipeline::parse(reader, version);

  const auto dimension_count = reader.read<uint32_t>("number of dimensions");
  reader.expect_items(dimension_count, 16, "dimensions");
  if (dimension_count > kMaxDimensions) {
    throw CorruptData(concat("implausible number of dimensions: ", dimension_count));
  }
  for (uint32_t i = 0; i < dimension_count; ++i) {
    schema.dimensions.push_back(read_dimension(reader, schema));
  }
  const auto attribute_count = reader.read<uint32_t>("number of attributes");
  reader.expect_items(attribute_count, 16, "attributes");
  for (uint32_t i = 0; i < attribute_count; ++i) {
    schema.attributes.push_back(read_attribute(reader, version));
  }
  if (version >= 18) {
    const auto label_count = reader.read<uint32_t>("number of dimension labels");
    reader.expect_items(label_count, 28, "dimension labels");
    for (uint32_t i = 0; i < label_count; ++i) skip_dimension_label(reader);
  }
  if (version >= 20) {
    const auto count = reader.read<uint32_t>("number of enumerations");
    reader.expect_items(count, 8, "enumerations");
    for (uint32_t i = 0; i < count; ++i) {
      std::string key = read_name(reader, "enumeration name");
      schema.enumeration_files[std::move(key)] = read_name(reader, "enumeration file");
    }
  }
  if (version >= 22) schema.current_domain = read_current_domain(reader, schema.dimensions);
  if (!reader.empty()) {
    throw CorruptData(concat("schema has bytes left over: ", reader.remaining()));
  }
  check(schema);
  return schema;
}

ArraySchemaPtr load_array_schema(const io::Store& store, const std::string& path) {
  const GenericTile tile = read_generic_tile(store, path);
  return with_place(
      [&] {
        return std::make_shared<const ArraySchema>(
            ArraySchema::parse(tile.bytes.span(), io::base_name(path)));
      },
      [&] { return path; });
}

}  // namespace penstock::format::tiledb
