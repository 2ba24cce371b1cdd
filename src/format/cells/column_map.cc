#include "format/cells/column_map.h"

#include <penstock/error.h>

#include <algorithm>

#include "base/concat.h"
#include "format/check_columns.h"

namespace penstock::format {
namespace {

constexpr int64_t kTableIdsAlways = int64_t{1} << 22;  // 16 MiB
constexpr int64_t kTableIdsPerChosen = 64;

}  // namespace

ColumnMap::ColumnMap(std::span<const int64_t> columns, int64_t domain_end)
    : columns_(columns.begin(), columns.end()) {
  if (columns_.size() >= kNotChosen) {
    throw InvalidArgument(concat("too many columns: ", columns_.size()));
  }
  check_columns(columns_, domain_end);
  if (columns_.empty()) return;
  first_ = columns_.front();
  last_ = columns_.back();
  const int64_t ids = last_ - first_ + 1;
  const auto chosen = static_cast<int64_t>(columns_.size());
  contiguous_ = ids == chosen;
  if (contiguous_ || (ids > kTableIdsAlways && ids / kTableIdsPerChosen > chosen)) return;
  table_.assign(static_cast<size_t>(ids) + 1, kNotChosen);
  for (size_t i = 0; i < columns_.size(); ++i) {
    table_[static_cast<size_t>(columns_[i] - first_)] = static_cast<uint32_t>(i);
  }
}

uint32_t ColumnMap::search(int64_t column) const noexcept {
  const auto at = std::lower_bound(columns_.begin(), columns_.end(), column);
  if (at == columns_.end() || *at != column) return kNotChosen;
  return static_cast<uint32_t>(at - columns_.begin());
}

bool ColumnMap::touches(int64_t first, int64_t last) const noexcept {
  const auto at = std::lower_bound(columns_.begin(), columns_.end(), first);
  return at != columns_.end() && *at <= last;
}

bool ColumnMap::covers(int64_t first, int64_t last, int64_t* shift) const noexcept {
  const uint32_t low = find(first);
  const uint32_t high = find(last);
  if (low == kNotChosen || high == kNotChosen || int64_t{high} - low != last - first) return false;
  *shift = first - low;
  return true;
}

}  // namespace penstock::format
