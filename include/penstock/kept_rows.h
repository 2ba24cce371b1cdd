#pragma once

#include <cstdint>
#include <memory>

namespace penstock {

struct LoaderOptions;
class Matrix;

/// Rows that loaders keep in memory from one epoch to the next.
///
///   options.kept = std::make_shared<KeptRows>();
///   for (;; ++options.epoch) Loader loader(matrix, options);   the second epoch reads nothing
///
/// Loaders with other rows, batches, layouts or transforms may share one object. It keeps rows of
/// one matrix and one choice of columns: a loader that needs others replaces them. What is kept
/// counts as part of the memory_budget of each loader that uses it. Any thread; a forked child
/// finds it empty.
class KeptRows {
 public:
  KeptRows();
  ~KeptRows();
  KeptRows(const KeptRows&) = delete;
  KeptRows& operator=(const KeptRows&) = delete;

  uint64_t rows() const;
  /// Those of rows() that are bit-packed: about 1.2 bytes a non-zero, and slower to read. The
  /// others are as batches are made from them: about 3 bytes.
  uint64_t packed_rows() const;
  uint64_t bytes() const;

  /// Gives the memory back. A loader that is running keeps what it uses until it ends.
  void clear();

 private:
  friend struct HandleAccess;
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Whether loaders with these options keep all of their rows, because they fit in memory_budget or
/// in the part of it that divide_memory chooses. It does not matter which are kept by now, so the
/// order of an epoch may depend on it.
bool keeps_all_rows(const Matrix& matrix, const LoaderOptions& options);

/// Divides options.memory_budget for rows that do not all fit in it: three quarters, or half,
/// become kept_memory, for as many rows as that holds, and the others are read in each epoch.
/// If all rows fit only in a smaller memory_budget, because more units and batches would be ahead
/// in a larger one, that becomes options.memory_budget, and kept_memory stays 0. Without effect if
/// all rows fit, or if nothing can be kept. Nor does it divide if less than a quarter of the rows
/// would be kept, or less than a third as many units be mixed. The order of an epoch depends on
/// both numbers.
LoaderOptions divide_memory(const Matrix& matrix, LoaderOptions options);

}  // namespace penstock
