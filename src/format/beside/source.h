#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "format/matrix_source.h"

// Several matrices with the same rows as one (docs/design/0015-several-measurements.md): the
// columns of the first, then those of the second, and so on. It is a MatrixSource like any other,
// so its readers know nothing of parts.

namespace penstock::format {

/// Number of a unit that a part does not have: its rows are empty there.
inline constexpr uint32_t kNoUnit = std::numeric_limits<uint32_t>::max();

/// Data that such a source and its readers share. Units end wherever a unit of one part does, so
/// each lies in one unit of every part.
struct BesideMatrix {
  std::vector<MatrixSourcePtr> parts;
  std::vector<int64_t> first_column;  ///< of each part, and one past the last
  std::vector<plan::FetchUnit> units;
  std::vector<uint32_t> unit_of_part;  ///< for each unit, its unit in each part, or kNoUnit
  MatrixInfo info;

  std::span<const uint32_t> units_of(uint32_t unit) const;  ///< one for each part
};

/// Throws InvalidArgument if there are no sources or too many columns.
MatrixSourcePtr put_beside(std::vector<MatrixSourcePtr> sources);

}  // namespace penstock::format
