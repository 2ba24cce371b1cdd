#pragma once

#include <penstock/transform.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/vector_path.h"

// Applies the steps of a TransformPlan to one cell. Steps before the first centring apply to the
// sparse entries. Later steps apply to the dense row, because centring makes zeros non-zero.
//
//   const RowTransform<float> transform(plan, columns);
//   nnz = transform.apply(position, indices, values, nnz, scratch);     in place; may return fewer
//   transform.apply_dense(values + begin, begin, end);                  of a row of columns()
//
// Entries must come in ascending column order and keep it. Duplicates of a column are summed first,
// because the steps are not linear. Immutable; any thread, each with its own scratch. T is the type
// of the batch; integer types allow only kColumns.

namespace penstock::kernel {

/// Buffers of a thread.
struct RowScratch {
  std::vector<uint64_t> keys, spare;
  std::vector<std::byte> values;
};

/// Number of columns after the steps (without tokens).
uint32_t columns_after(const TransformPlan& plan, uint32_t columns);

/// Throws InvalidArgument for a plan that is invalid for rows of `columns` columns.
void check_plan(const TransformPlan& plan, uint32_t columns);

/// Whether the plan centres, so that only dense rows can hold the result.
bool has_dense_steps(const TransformPlan& plan) noexcept;

template <typename T>
class RowTransform {
 public:
  /// Throws as check_plan does, and for steps that an integer type T does not support.
  RowTransform(const TransformPlan& plan, uint32_t columns, VectorPath path = best_vector_path());

  /// Returns the number of remaining entries. Throws InvalidArgument if the sum of a column's
  /// duplicates does not fit T.
  uint32_t apply(int64_t position, int32_t* indices, T* values, uint32_t nnz,
                 RowScratch& scratch) const;

  /// Transforms columns [begin, end) of a dense row; `values` starts at `begin`.
  void apply_dense(T* values, uint32_t begin, uint32_t end) const;

  uint32_t columns() const noexcept { return columns_; }
  bool has_dense_steps() const noexcept { return first_dense_ != steps_.size(); }

 private:
  struct Step {
    TransformStep::Kind kind;
    T target{}, divisor{}, low{}, high{};
    TransformStep::Numbers row_totals;
    std::vector<T> scale, mean;
    std::shared_ptr<const std::vector<int32_t>> places;
    unsigned place_bits = 0;
  };
  static Step convert(const TransformStep& step);
  uint32_t apply_step(const Step& step, int64_t position, int32_t* indices, T* values, uint32_t nnz,
                      RowScratch& scratch) const;

  std::vector<Step> steps_;
  size_t first_dense_ = 0;
  uint32_t columns_ = 0;
  VectorPath path_;
};

/// Sum of values, in an order that depends only on the count.
template <typename T>
double total_of(const T* values, uint32_t count) noexcept;

}  // namespace penstock::kernel
