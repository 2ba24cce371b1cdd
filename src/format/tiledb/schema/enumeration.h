#pragma once

#include <penstock/data_type.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/tiledb/schema/array_schema.h"
#include "io/store.h"

// The values of an enumerated attribute (a pandas categorical, an Arrow dictionary), indexed by
// code. Source: tiledb/sm/array_schema/enumeration.cc (format_spec/enumeration.md omits the two
// names).
//
// Files are written once and never changed. Extending an enumeration writes a new file, which
// starts with the old values, and a new schema that names it. A plain value, loaded when a column
// needs it, read by any thread.

namespace penstock::format::tiledb {

struct Enumeration {
  std::string name;
  std::string file_name;
  DataType type = DataType::kStringUtf8;
  uint32_t cell_val_num = kVarNum;
  bool ordered = false;
  std::vector<std::byte> data;
  std::vector<uint64_t>
      offsets;  ///< variable length: byte offset of each value in data, no end entry

  size_t size() const noexcept;  ///< number of values
  bool var_length() const noexcept { return cell_val_num == kVarNum; }
  /// Bytes of value `index`; index < size().
  std::span<const std::byte> value(size_t index) const;
  std::string_view string_value(size_t index) const;

  /// Parses the inflated contents of an enumeration file; checks that offsets ascend and fit.
  static Enumeration parse(std::span<const std::byte> bytes);
};

/// Reads the enumeration `name` of a schema of the array at `array_path`. Throws `NotFound` that
/// lists the enumerations.
std::shared_ptr<const Enumeration> load_enumeration(const io::Store& store,
                                                    const std::string& array_path,
                                                    const ArraySchema& schema,
                                                    std::string_view name);

}  // namespace penstock::format::tiledb
