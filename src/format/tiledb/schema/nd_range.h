#pragma once

#include <penstock/error.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_reader.h"
#include "base/concat.h"

// A closed interval [min, max] along one dimension of any type, fixed or variable length, and boxes
// of such intervals (non-empty domains, current domains). Source: format_spec/fragment.md, MBR.
//
// For the few boxes of schemas and footers. Tile MBRs, of which there are millions, are in
// TileBounds (tile_bounds.h).

namespace penstock::format::tiledb {

struct Dimension;

struct Range {
  std::vector<std::byte> bytes;  ///< min, then max
  uint64_t min_bytes = 0;        ///< length of min; max is the rest

  std::span<const std::byte> min() const { return std::span(bytes).first(min_bytes); }
  std::span<const std::byte> max() const { return std::span(bytes).subspan(min_bytes); }

  /// Value of a fixed-length interval; T must have the dimension's size.
  template <typename T>
  T min_as() const {
    return load<T>(min());
  }
  template <typename T>
  T max_as() const {
    return load<T>(max());
  }
  std::string_view min_string() const { return as_string(min()); }
  std::string_view max_string() const { return as_string(max()); }

 private:
  template <typename T>
  static T load(std::span<const std::byte> from) {
    if (from.size() != sizeof(T)) {
      throw Internal(concat("range value has ", from.size(), " bytes, read as ", sizeof(T)));
    }
    T value;
    std::memcpy(&value, from.data(), sizeof(T));
    return value;
  }
  static std::string_view as_string(std::span<const std::byte> from) {
    return {reinterpret_cast<const char*>(from.data()), from.size()};
  }
};

/// One interval for each dimension, in the domain's order; empty: no box.
using NDRange = std::vector<Range>;

/// Reads a box over `dimensions`: two values for fixed dimensions, two lengths and values for
/// variable ones.
NDRange read_nd_range(ByteReader& reader, std::span<const Dimension> dimensions);

}  // namespace penstock::format::tiledb
