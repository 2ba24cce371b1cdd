#pragma once

#include <cstdint>
#include <span>
#include <vector>

// The chosen rows of one fetch unit: stored row id -> index among them. One per unit in flight,
// refilled for each; look-ups are const and shared by the threads of the unit.

namespace penstock::format::soma {

class XRowMap {
 public:
  static constexpr uint32_t kNotChosen = 0xFFFFFFFFU;

  /// Strictly ascending ids (else InvalidArgument), kept by the caller as long as the map is used.
  void assign(std::span<const int64_t> rows);

  uint32_t find(int64_t row) const noexcept {
    if (row < first_ || row > last_) return kNotChosen;
    if (contiguous_) return static_cast<uint32_t>(row - first_);
    if (!table_.empty()) return table_[static_cast<size_t>(row - first_)];
    return search(row);
  }

  bool empty() const noexcept { return rows_.empty(); }
  /// Whether any chosen row lies in [first, last].
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
