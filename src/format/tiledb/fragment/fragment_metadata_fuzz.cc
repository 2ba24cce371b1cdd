// First byte: the fragment's array (low two bits) and the kind of the other bytes (next three). The
// arrays have the shapes of the golden stores "deletes", "strings" and "dense".

#include <penstock/error.h>

#include <cstring>
#include <utility>

#include "format/tiledb/fragment/fragment_metadata.h"
#include "format/tiledb/generic_tile.h"
#include "io/memory_store.h"

using namespace penstock;
using namespace penstock::format::tiledb;

namespace {

Attribute attribute(DataType type, uint32_t cell_val_num, bool nullable) {
  Attribute result;
  result.name = "attribute";
  result.type = type;
  result.cell_val_num = cell_val_num;
  result.nullable = nullable;
  return result;
}

template <typename T>
Dimension dimension(DataType type, T low, T high, T extent) {
  Dimension result;
  result.name = "dimension";
  result.type = type;
  const T domain[2] = {low, high};
  const auto domain_bytes = std::as_bytes(std::span(domain));
  const auto extent_bytes = std::as_bytes(std::span(&extent, 1));
  result.domain.assign(domain_bytes.begin(), domain_bytes.end());
  result.tile_extent.assign(extent_bytes.begin(), extent_bytes.end());
  return result;
}

ArraySchemaPtr make_schema(unsigned which) {
  auto schema = std::make_shared<ArraySchema>();
  schema->format_version = 22;
  schema->capacity = which == 1 ? 3 : 4;
  if (which == 0) {
    schema->dimensions = {dimension<int64_t>(DataType::kInt64, 0, 999, 10),
                          dimension<int64_t>(DataType::kInt64, 0, 999, 10)};
    schema->attributes = {attribute(DataType::kFloat32, 1, false),
                          attribute(DataType::kStringAscii, kVarNum, false),
                          attribute(DataType::kInt64, 1, true)};
  } else if (which == 1) {
    Dimension name;
    name.type = DataType::kStringAscii;
    name.cell_val_num = kVarNum;
    schema->dimensions = {name, dimension<uint32_t>(DataType::kUInt32, 0, 1'000'000, 1000)};
    schema->attributes = {attribute(DataType::kStringAscii, kVarNum, false),
                          attribute(DataType::kStringUtf8, kVarNum, false)};
  } else {
    schema->type = ArrayType::kDense;
    schema->dimensions = {dimension<int32_t>(DataType::kInt32, -5, 14, 4),
                          dimension<int32_t>(DataType::kInt32, 1, 12, 5)};
    schema->attributes = {attribute(DataType::kInt32, 1, false),
                          attribute(DataType::kFloat64, 1, false)};
  }
  return schema;
}

// Returns the schema under the name in the footer.
ArraySchemas schemas_for(std::span<const std::byte> footer, const ArraySchemaPtr& schema) {
  ByteReader reader(footer);
  reader.skip(4, "version");
  const auto length = reader.read<uint64_t>("name length");
  return {{std::string(reader.take_string(length, "name")), schema}};
}

void walk(FragmentMetadata& fragment) {
  if (!fragment.dense()) fragment.load_tile_bounds();
  fragment.load_processed_conditions();
  for (const FragmentField& field : fragment.fields()) {
    fragment.load_tile_offsets(field);
    if (field.var_length()) fragment.load_var_tile_sizes(field);
    for (uint64_t tile = 0; tile < fragment.tile_count(); ++tile) {
      const auto range = fragment.tile_range(field, TilePart::kData, tile);
      if (range.end() > fragment.file_bytes(field, TilePart::kData)) throw Internal("tile end");
    }
  }
}

void read_file(std::span<const std::byte> file, const ArraySchemaPtr& schema) {
  uint64_t footer_bytes = 0;
  if (file.size() < 8) return;
  std::memcpy(&footer_bytes, file.data() + file.size() - 8, 8);
  if (footer_bytes > file.size() - 8) return;
  const auto store = std::make_shared<io::MemoryStore>();
  store->put("f/__fragment_metadata.tdb", file);
  FragmentLocation location;
  location.path = "f";
  walk(*FragmentMetadata::load(store, location,
                               schemas_for(file.subspan(file.size() - 8 - footer_bytes), schema)));
}

void read_bounds(std::span<const std::byte> input, const ArraySchema& schema) {
  if (input.empty()) return;
  const uint64_t tiles = static_cast<uint64_t>(input[0]);
  Buffer tree(input.size() - 1);
  if (tree.size() != 0) std::memcpy(tree.data(), input.data() + 1, tree.size());
  const auto bounds = TileBounds::parse(std::move(tree), schema.dimensions, tiles);
  for (uint64_t tile = 0; tile < tiles; ++tile) {
    for (size_t d = 0; d < schema.dimensions.size(); ++d) {
      if (schema.dimensions[d].var_length()) {
        const std::string text(bounds.min_string(tile, d));
        const std::string other(bounds.max_string(tile, d));
      } else if (bounds.min_int(tile, d) > bounds.max_int(tile, d)) {
        throw Internal("bounds are reversed");
      }
    }
  }
}

void parse(std::span<const std::byte> input) {
  const auto first = static_cast<unsigned>(input[0]);
  const auto rest = input.subspan(1);
  static const ArraySchemaPtr schemas[3] = {make_schema(0), make_schema(1), make_schema(2)};
  const ArraySchemaPtr& schema = schemas[(first & 3) % 3];
  switch ((first >> 2) % 4) {
    case 0: {
      ByteReader reader(rest);
      FragmentFooter::parse(reader, schemas_for(rest, schema));
      break;
    }
    case 1:
      read_bounds(rest, *schema);
      break;
    case 2:
      read_file(rest, schema);
      break;
    default: {
      Buffer bytes(rest.size());
      if (!rest.empty()) std::memcpy(bytes.data(), rest.data(), rest.size());
      ArrayDirectory::ConsolidatedFooters footers;
      footers.add(std::move(bytes));
      footers.find("__1_1_a_22");
      break;
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  try {
    parse(std::as_bytes(std::span(data, size)));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) throw;
  }
  return 0;
}
