#pragma once

#include <cstdint>
#include <span>
#include <vector>

// Chosen rows of one fetch unit: stored row id -> index among them. Each unit in flight has one and
// refills it. Look-ups are const and shared by the threads of the unit.

namespace penstock::format::soma {

class XRowMap {
 public:
  static constexpr uint32_t kNotChosen = 0xFFFFFFFFU;

  /// Throws InvalidArgument unless ids ascend strictly. The caller keeps `rows` while the map is in
  /// use.
  void assign(std::span<const int64_t> rows);

  uint32_t find(int64_t row) const noexcept {
    if (row < first_ || row > last_) return kNotChosen;
    if (contiguous_) return static_cast<uint32_t>(row - first_);
    if (!table_.empty()) return table_[static_cast<size_t>(row - first_)];
    return search(row);
  }

  bool empty() const noexcept { return rows_.empty(); }
  /// Whether [first, last] holds any chosen row.
  bool touches(int64_t first, int64_t last) const noexcept;

 private:
  uint32_t search(int64_t row) const noexcept;

  std::span<const int64_t> rows_;
  std::vector<uint32_t> table_;
  int64_t first_ = 0;
  int64_t last_ = -1;
  bool contiguous_ = true;
};

}  // namespace penstock::format::soma
