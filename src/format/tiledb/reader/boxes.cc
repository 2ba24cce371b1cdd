#include "format/tiledb/reader/boxes.h"

#include <cstring>
#include <string_view>
#include <utility>

#include "base/types/visit_type.h"

namespace penstock::format::tiledb {
namespace {

template <typename Body>
decltype(auto) with_coordinate_type(DataType type, Body&& body) {
  return visit_number(stored_type(type), std::forward<Body>(body), "coordinates");
}

/// Whether `test(a_min, a_max, b_min, b_max)` is true for every dimension.
template <typename Test>
bool all_dimensions(std::span<const Dimension> dimensions, const NDRange& a, const NDRange& b,
                    Test&& test) {
  for (size_t d = 0; d < dimensions.size(); ++d) {
    const bool holds =
        dimensions[d].var_length()
            ? test(a[d].min_string(), a[d].max_string(), b[d].min_string(), b[d].max_string())
            : with_coordinate_type(dimensions[d].type, [&](auto identity) {
                using T = typename decltype(identity)::type;
                return test(a[d].min_as<T>(), a[d].max_as<T>(), b[d].min_as<T>(), b[d].max_as<T>());
              });
    if (!holds) return false;
  }
  return true;
}

constexpr auto kOverlaps = [](auto a_min, auto a_max, auto b_min, auto b_max) {
  return a_min <= b_max && b_min <= a_max;
};

}  // namespace

bool boxes_overlap(std::span<const Dimension> dimensions, const NDRange& a, const NDRange& b) {
  return !a.empty() && !b.empty() && all_dimensions(dimensions, a, b, kOverlaps);
}

bool box_contains(std::span<const Dimension> dimensions, const NDRange& outer,
                  const NDRange& inner) {
  return all_dimensions(dimensions, outer, inner,
                        [](auto outer_min, auto outer_max, auto inner_min, auto inner_max) {
                          return outer_min <= inner_min && inner_max <= outer_max;
                        });
}

bool tile_touches(const FragmentMetadata& fragment, std::span<const Dimension> dimensions,
                  uint64_t tile, const NDRange& box) {
  const TileBounds& bounds = fragment.tile_bounds();
  for (size_t d = 0; d < dimensions.size(); ++d) {
    const bool overlaps = dimensions[d].var_length()
                              ? kOverlaps(bounds.min_string(tile, d), bounds.max_string(tile, d),
                                          box[d].min_string(), box[d].max_string())
                              : with_coordinate_type(dimensions[d].type, [&](auto identity) {
                                  using T = typename decltype(identity)::type;
                                  return kOverlaps(bounds.min<T>(tile, d), bounds.max<T>(tile, d),
                                                   box[d].min_as<T>(), box[d].max_as<T>());
                                });
    if (!overlaps) return false;
  }
  return true;
}

void drop_outside(const Dimension& dimension, const Range& range, const Column& coordinates,
                  std::span<uint8_t> keep) {
  if (dimension.var_length()) {
    for (size_t i = 0; i < keep.size(); ++i) {
      const std::string_view value = coordinates.string_at(i);
      if (value < range.min_string() || value > range.max_string()) keep[i] = 0;
    }
    return;
  }
  with_coordinate_type(dimension.type, [&](auto identity) {
    using T = typename decltype(identity)::type;
    const T least = range.min_as<T>();
    const T most = range.max_as<T>();
    for (size_t i = 0; i < keep.size(); ++i) {
      T value;
      std::memcpy(&value, coordinates.data.data() + i * sizeof(T), sizeof(T));
      if (!(value >= least && value <= most)) keep[i] = 0;
    }
  });
}

}  // namespace penstock::format::tiledb
