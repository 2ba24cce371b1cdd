#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace penstock {

/// Sampling weights of the rows of a selection, by position in it; immutable, cheap to copy, safe
/// from any thread.
///
/// Kept as integers that sum to about 2^62, so that what is drawn is the same on every machine:
/// each weight is off by 2^-62 of the sum, or 2^-27 of itself where that is more, and no positive
/// one becomes zero. Up to 65,536 distinct weights (classes) take one or two bytes a row, others
/// four.
class RowWeights {
 public:
  RowWeights() = default;  ///< of no rows: every other function needs some
  explicit operator bool() const noexcept { return kept_ != nullptr; }

  /// A weight for each row. Throws InvalidArgument for one that is NaN, infinite or negative, and
  /// when there are none or all are zero.
  static RowWeights from_values(std::span<const double> weights);
  /// A class for each row and a weight for each class. Throws InvalidArgument for a code that is
  /// not one of the classes, and as from_values.
  static RowWeights from_classes(std::span<const int32_t> codes,
                                 std::span<const double> class_weights);

  uint64_t size() const noexcept;
  uint64_t positive_count() const noexcept;  ///< rows of weight > 0
  uint64_t total() const noexcept;
  /// Of rows [begin, end).
  uint64_t sum(uint64_t begin, uint64_t end) const;
  /// Replaces `out` by the weights of rows [begin, end).
  void copy(uint64_t begin, uint64_t end, std::vector<uint64_t>& out) const;

  /// A 64-bit hash of all weights, the same on every machine.
  uint64_t fingerprint() const noexcept;
  size_t memory_bytes() const noexcept;

 private:
  struct Kept;
  explicit RowWeights(std::shared_ptr<const Kept> kept) : kept_(std::move(kept)) {}
  std::shared_ptr<const Kept> kept_;
};

/// An epoch of rows that are drawn at random instead of each selected row once.
struct RowSampling {
  RowWeights weights;       ///< for each selected row; empty: all alike
  uint64_t samples = 0;     ///< rows of an epoch, of all ranks together
  bool replacement = true;  ///< whether a row may be drawn more than once

  /// A 64-bit hash of all that, the same on every machine.
  uint64_t fingerprint() const noexcept;
};

}  // namespace penstock
