#include "pipeline/batch/transformed_rows.h"

#include <penstock/error.h>

#include <optional>
#include <vector>

#include "kernel/dense_row.h"
#include "kernel/transform/row_transform.h"
#include "kernel/transform/token_ranking.h"
#include "kernel/unpack_row.h"
#include "kernel/value_type.h"

namespace penstock::pipeline {
namespace {

template <typename T>
class TypedRows : public TransformedRows {
 public:
  TypedRows(const TransformPlan& plan, const kernel::PackedRowLayout& rows, uint32_t columns,
            DataType dtype)
      : unpacker_(rows, dtype), transform_(plan, columns) {
    if (plan.tokens) ranking_.emplace(*plan.tokens);
  }

  uint64_t fill_csr(std::span<const PackedRowRef> rows, int32_t* indptr, int32_t* indices,
                    std::byte* values, const Misfit& misfit) const override {
    kernel::RowScratch scratch;
    T* const out = reinterpret_cast<T*>(values);
    uint64_t done = 0;
    indptr[0] = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (i + 1 < rows.size()) prefetch_record(rows[i + 1]);
      unpack(rows[i], indices + done, out + done, misfit);
      done += transform_.apply(rows[i].position, indices + done, out + done, rows[i].nnz, scratch);
      indptr[i + 1] = static_cast<int32_t>(done);
    }
    return done;
  }

  void fill_dense(std::span<const PackedRowRef> rows, std::byte* values, int32_t* lengths,
                  const Misfit& misfit) const override {
    kernel::RowScratch scratch;
    std::vector<int32_t> indices;
    std::vector<T> entries;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (i + 1 < rows.size()) prefetch_record(rows[i + 1]);
      if (indices.size() < rows[i].nnz) {
        indices.resize(rows[i].nnz);
        entries.resize(rows[i].nnz);
      }
      unpack(rows[i], indices.data(), entries.data(), misfit);
      const uint32_t nnz =
          transform_.apply(rows[i].position, indices.data(), entries.data(), rows[i].nnz, scratch);
      if constexpr (std::is_same_v<T, double>) {
        if (ranking_) {
          const size_t row_bytes =
              ranking_->tokens().max_tokens * size_of(ranking_->tokens().dtype);
          lengths[i] =
              static_cast<int32_t>(ranking_->rank(rows[i].position, indices.data(), entries.data(),
                                                  nnz, values + i * row_bytes, scratch));
          continue;
        }
      }
      kernel::fill_dense_row(transform_, indices.data(), entries.data(), nnz,
                             reinterpret_cast<T*>(values) + i * size_t{transform_.columns()});
    }
    kernel::finish_dense();
  }

 private:
  void unpack(const PackedRowRef& row, int32_t* indices, T* values, const Misfit& misfit) const {
    const uint32_t entry =
        unpacker_.append_csr(row.record, indices, reinterpret_cast<std::byte*>(values));
    if (entry != kernel::kNoMisfit) misfit(row, entry);
  }

  kernel::RowUnpacker unpacker_;
  kernel::RowTransform<T> transform_;
  std::optional<kernel::TokenRanking> ranking_;
};

}  // namespace

BatchShape batch_shape(const TransformPlan* plan, uint32_t columns, DataType dtype) {
  if (plan == nullptr) return {columns, dtype, false};
  if (plan->tokens) return {plan->tokens->max_tokens, plan->tokens->dtype, true};
  return {kernel::columns_after(*plan, columns), dtype, false};
}

std::unique_ptr<const TransformedRows> make_transformed_rows(const TransformPlan& plan,
                                                             const kernel::PackedRowLayout& rows,
                                                             uint32_t columns, DataType dtype,
                                                             BatchLayout layout) {
  if (layout == BatchLayout::kCsr && plan.tokens) {
    throw InvalidArgument("transforms: tokens are a dense matrix, not CSR");
  }
  if (layout == BatchLayout::kCsr && kernel::has_dense_steps(plan)) {
    throw InvalidArgument("transforms: centring makes every zero a value, which CSR cannot hold");
  }
  const DataType computed = plan.tokens ? DataType::kFloat64 : dtype;
  return visit_number(computed, [&](auto identity) -> std::unique_ptr<const TransformedRows> {
    using T = typename decltype(identity)::type;
    return std::make_unique<TypedRows<T>>(plan, rows, columns, computed);
  });
}

}  // namespace penstock::pipeline
