#pragma once

#include <cstdint>
#include <span>
#include <vector>

// The choice of columns of a matrix that may be a view of another: stored column -> output column.
// A view may show columns in any order, so output columns need not ascend with stored ones.

namespace penstock::format {

class ColumnTable {
 public:
  static constexpr uint32_t kNotChosen = 0xFFFFFFFFU;

  /// `chosen` columns of a view, ascending; the i-th becomes output column i. `view`: stored column
  /// of each column of the view, not read if it shows all. Throws InvalidArgument unless `chosen`
  /// ascends strictly within the view.
  ColumnTable(std::span<const int64_t> chosen, std::span<const int64_t> view, bool view_shows_all,
              uint64_t stored_columns);

  /// Whether each stored column is the output column of the same number.
  bool all() const noexcept { return all_; }
  /// By stored column; not filled if all().
  const uint32_t* data() const noexcept { return table_.data(); }
  /// Stored column of each output column.
  std::span<const int64_t> stored() const noexcept { return stored_; }

 private:
  std::vector<uint32_t> table_;
  std::vector<int64_t> stored_;
  bool all_ = false;
};

}  // namespace penstock::format
