#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace penstock {

/// Sampling weights of the rows of a selection, by position in it. Immutable, cheap to copy, safe
/// from any thread.
///
/// Weights are stored as integers that sum to about 2^62, so draws are the same on every machine.
/// The error of a weight is 2^-62 of the sum, or 2^-27 of the weight if that is more. No positive
/// weight becomes zero. Up to 65,536 distinct weights (classes) take one or two bytes a row, more
/// take four.
class RowWeights {
 public:
  RowWeights() = default;  ///< no rows; the functions below need rows
  explicit operator bool() const noexcept { return kept_ != nullptr; }

  /// A weight for each row. Throws InvalidArgument if a weight is NaN, infinite or negative, if
  /// there are no weights, or if all are zero.
  static RowWeights from_values(std::span<const double> weights);
  /// A class for each row and a weight for each class. Throws as from_values does, and
  /// InvalidArgument for a code that is not a class.
  static RowWeights from_classes(std::span<const int32_t> codes,
                                 std::span<const double> class_weights);

  uint64_t size() const noexcept;
  uint64_t positive_count() const noexcept;  ///< rows of weight > 0
  uint64_t total() const noexcept;
  /// Sum of the weights of rows [begin, end).
  uint64_t sum(uint64_t begin, uint64_t end) const;
  /// Sets `out` to the weights of rows [begin, end).
  void copy(uint64_t begin, uint64_t end, std::vector<uint64_t>& out) const;

  /// A 64-bit hash of all weights, the same on every machine.
  uint64_t fingerprint() const noexcept;
  size_t memory_bytes() const noexcept;

 private:
  struct Kept;
  explicit RowWeights(std::shared_ptr<const Kept> kept) : kept_(std::move(kept)) {}
  std::shared_ptr<const Kept> kept_;
};

/// An epoch of rows drawn at random, instead of each selected row once.
struct RowSampling {
  RowWeights weights;       ///< for each selected row; empty: all equal
  uint64_t samples = 0;     ///< rows of an epoch, all ranks together
  bool replacement = true;  ///< whether a row may be drawn more than once

  /// A 64-bit hash of these settings, the same on every machine.
  uint64_t fingerprint() const noexcept;
};

}  // namespace penstock
