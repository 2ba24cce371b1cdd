#include "format/soma/x/schema.h"

#include <penstock/error.h>

#include <algorithm>

#include "base/checked.h"
#include "kernel/pack_row.h"

namespace penstock::format::soma {

using tiledb::ArraySchema;

namespace {

constexpr int64_t kEmptyUnitRows = int64_t{1} << 16;
constexpr int kEmptyUnits = 64;

[[noreturn]] void unsupported(const std::string& what, const std::string& path) {
  throw Unsupported("not a matrix that can be streamed: " + what + ", in " + path);
}

std::string extent_text(const tiledb::Dimension& dimension) {
  return dimension.has_extent() ? std::to_string(dimension.extent()) : "none";
}

}  // namespace

void check_matrix_schema(const ArraySchema& schema, const std::string& path) {
  if (schema.dimensions.size() != 2) {
    unsupported("it has " + std::to_string(schema.dimensions.size()) + " dimensions, not 2", path);
  }
  for (const auto& dimension : schema.dimensions) {
    if (dimension.type != DataType::kInt64) {
      unsupported("dimension " + dimension.name + " is " + std::string(name_of(dimension.type)) +
                      ", not int64",
                  path);
    }
    if (dimension.domain_min() < 0) {
      unsupported("dimension " + dimension.name + " begins at " +
                      std::to_string(dimension.domain_min()) + ", below 0",
                  path);
    }
  }
}

const tiledb::Attribute& matrix_attribute(const ArraySchema& schema, const std::string& path) {
  const auto named = schema.find_attribute("soma_data");
  if (!named && schema.attributes.size() != 1) {
    unsupported(
        "it has " + std::to_string(schema.attributes.size()) + " attributes and none is soma_data",
        path);
  }
  const tiledb::Attribute& attribute = schema.attributes[named.value_or(0)];
  if (attribute.cell_val_num != 1 || attribute.nullable || attribute.has_enumeration()) {
    unsupported("attribute " + attribute.name + " is not one plain number a cell", path);
  }
  kernel::make_row_layout(1, attribute.type);  // Unsupported when it is not a number
  return attribute;
}

int64_t domain_end(const ArraySchema& schema, size_t dimension) {
  const int64_t last = schema.current_domain.empty()
                           ? schema.dimensions[dimension].domain_max()
                           : schema.current_domain[dimension].max_as<int64_t>();
  return checked_add<int64_t>(last, 1, "domain");
}

void append_empty_units(std::vector<plan::FetchUnit>& units, int64_t begin, int64_t end) {
  for (int i = 0; i < kEmptyUnits && begin < end; ++i) {
    const bool rest = i + 1 == kEmptyUnits;
    const int64_t unit_end = rest ? end : std::min(end, begin + kEmptyUnitRows);
    units.push_back({.row_begin = begin, .row_end = unit_end});
    begin = unit_end;
  }
}

std::string layout_text(const ArraySchema& schema) {
  const std::string tiles = std::string(tiledb::name_of(schema.cell_order)) + ", tiles " +
                            extent_text(schema.dimensions[0]) + " x " +
                            extent_text(schema.dimensions[1]);
  return schema.dense() ? "dense, " + tiles
                        : tiles + ", capacity " + std::to_string(schema.capacity);
}

}  // namespace penstock::format::soma
