#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

// The choice of columns of a matrix reader: stored column id -> output column.
//
// Built once for each reader, then only read. A table covers the ids from the first chosen id to
// the last (4 bytes an id). If they lie too far apart for a table, look-ups search the sorted list.
// Most tiles need neither: if every id between a tile's bounds is chosen, its columns only shift.

namespace penstock::format {

class ColumnMap {
 public:
  static constexpr uint32_t kNotChosen = 0xFFFFFFFFU;

  /// Throws InvalidArgument unless the ids ascend strictly in [0, domain_end).
  ColumnMap(std::span<const int64_t> columns, int64_t domain_end);

  uint64_t size() const noexcept { return columns_.size(); }
  std::span<const int64_t> ids() const noexcept { return columns_; }

  /// Output column of a stored id, or kNotChosen.
  uint32_t find(int64_t column) const noexcept {
    if (column < first_ || column > last_) return kNotChosen;
    if (contiguous_) return static_cast<uint32_t>(column - first_);
    if (!table_.empty()) return table_[static_cast<size_t>(column - first_)];
    return search(column);
  }

  /// Whether [first, last] holds any chosen id.
  bool touches(int64_t first, int64_t last) const noexcept;

  /// True when all ids in [first, last] are chosen: output = id - shift.
  bool covers(int64_t first, int64_t last, int64_t* shift) const noexcept;

  /// Calls `body(lookup)` with the look-up that fits the choice. lookup(uint32_t id) is the output
  /// column or kNotChosen; only sparse choices branch. For inner loops.
  template <typename Body>
  void with_lookup(Body&& body) const {
    const auto first = static_cast<uint32_t>(first_);
    if (last_ > int64_t{0xFFFFFFFF}) {
      body([this](uint32_t id) { return find(id); });
    } else if (contiguous_) {
      const auto count = static_cast<uint32_t>(columns_.size());
      body([=](uint32_t id) { return id - first < count ? id - first : kNotChosen; });
    } else if (!table_.empty()) {
      // Ids below the first wrap around to large ids. The last entry stands for all ids out of
      // range.
      const auto ids = static_cast<uint32_t>(table_.size() - 1);
      const uint32_t* const table = table_.data();
      body([=](uint32_t id) { return table[std::min(id - first, ids)]; });
    } else {
      body([this](uint32_t id) { return find(id); });
    }
  }

 private:
  uint32_t search(int64_t column) const noexcept;

  std::vector<int64_t> columns_;
  std::vector<uint32_t> table_;  // of the ids from first_ to last_, followed by kNotChosen
  int64_t first_ = 0;
  int64_t last_ = -1;
  bool contiguous_ = false;
};

}  // namespace penstock::format
