#include "format/soma/x/row_map.h"

#include <penstock/error.h>

#include <algorithm>

#include "base/concat.h"

namespace penstock::format::soma {
namespace {

constexpr int64_t kTableRows = int64_t{1} << 20;

}  // namespace

void XRowMap::assign(std::span<const int64_t> rows) {
  if (rows.size() >= kNotChosen) {
    throw InvalidArgument(concat("too many rows in a unit: ", rows.size()));
  }
  for (size_t i = 1; i < rows.size(); ++i) {
    if (rows[i] <= rows[i - 1]) {
      throw InvalidArgument(
          concat("rows must ascend strictly: ", rows[i - 1], " is followed by ", rows[i]));
    }
  }
  rows_ = rows;
  table_.clear();
  contiguous_ = true;
  first_ = 0;
  last_ = -1;
  if (rows.empty()) return;
  first_ = rows.front();
  last_ = rows.back();
  const int64_t ids = last_ - first_ + 1;
  contiguous_ = ids == static_cast<int64_t>(rows.size());
  if (contiguous_ || ids > kTableRows) return;
  table_.assign(static_cast<size_t>(ids), kNotChosen);
  for (size_t i = 0; i < rows.size(); ++i) {
    table_[static_cast<size_t>(rows[i] - first_)] = static_cast<uint32_t>(i);
  }
}

uint32_t XRowMap::search(int64_t row) const noexcept {
  const auto at = std::lower_bound(rows_.begin(), rows_.end(), row);
  if (at == rows_.end() || *at != row) return kNotChosen;
  return static_cast<uint32_t>(at - rows_.begin());
}

bool XRowMap::touches(int64_t first, int64_t last) const noexcept {
  const auto at = std::lower_bound(rows_.begin(), rows_.end(), first);
  return at != rows_.end() && *at <= last;
}

}  // namespace penstock::format::soma
