#pragma once

#include <penstock/transform.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/vector_path.h"

// The steps of a TransformPlan on one cell's entries, and then, from the first centring on, on its
// dense row: centring makes every zero a value.
//
//   const RowTransform<float> transform(plan, columns);
//   nnz = transform.apply(position, indices, values, nnz, scratch);     in place; may get fewer
//   transform.apply_dense(values + begin, begin, end);                  of a row of columns()
//
// Entries come in ascending column order and leave so; several of one column are summed first,
// since the steps are not linear. Immutable, any thread, each with a scratch of its own. T is the
// type of the batch; integers take kColumns alone.

namespace penstock::kernel {

/// Buffers of a thread.
struct RowScratch {
  std::vector<uint64_t> keys, spare;
  std::vector<std::byte> values;
};

/// Columns after the steps (those of tokens not counted).
uint32_t columns_after(const TransformPlan& plan, uint32_t columns);

/// Throws InvalidArgument for a plan that makes no sense on rows of `columns` columns.
void check_plan(const TransformPlan& plan, uint32_t columns);

/// Whether the plan centres, so that only dense rows can hold what results.
bool has_dense_steps(const TransformPlan& plan) noexcept;

template <typename T>
class RowTransform {
 public:
  /// As check_plan; also for steps that the integer type T has no values for.
  RowTransform(const TransformPlan& plan, uint32_t columns, VectorPath path = best_vector_path());

  /// Number of entries that are left. InvalidArgument when the sum of a column's several values
  /// does not fit T.
  uint32_t apply(int64_t position, int32_t* indices, T* values, uint32_t nnz,
                 RowScratch& scratch) const;

  /// Columns [begin, end) of a dense row, `values` being at begin.
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

/// Sum in an order that depends on the count alone.
template <typename T>
double total_of(const T* values, uint32_t count) noexcept;

}  // namespace penstock::kernel
