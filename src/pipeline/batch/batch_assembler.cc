#include "pipeline/batch/batch_assembler.h"

#include <penstock/error.h>

#include <limits>
#include <utility>

#include "base/concat.h"
#include "pipeline/batch/batch_access.h"

namespace penstock::pipeline {
namespace {

constexpr size_t align64(size_t bytes) { return (bytes + 63) & ~size_t{63}; }

}  // namespace

struct BatchAssembler::Parts {
  size_t joinids = 0, positions = 0, lengths = 0, indptr = 0, indices = 0, values = 0, total = 0;
  std::byte* base = nullptr;

  Parts(BatchLayout layout, const BatchShape& shape, uint64_t rows, uint64_t nnz) {
    const size_t value_bytes = size_of(shape.dtype);
    joinids = 0;
    positions = align64(joinids + rows * sizeof(int64_t));
    lengths = align64(positions + rows * sizeof(int64_t));
    indptr = align64(lengths + (shape.tokens ? rows * sizeof(int32_t) : 0));
    const bool csr = layout == BatchLayout::kCsr;
    indices = align64(indptr + (csr ? (rows + 1) * sizeof(int32_t) : 0));
    values = align64(indices + (csr ? nnz * sizeof(int32_t) : 0));
    total = align64(values + (csr ? nnz : rows * shape.columns) * value_bytes);
  }
  template <typename T>
  T* at(size_t offset) const {
    return reinterpret_cast<T*>(base + offset);
  }
};

BatchAssembler::BatchAssembler(const kernel::PackedRowLayout& rows, BatchLayout layout,
                               DataType dtype, uint32_t columns,
                               std::shared_ptr<const std::vector<int64_t>> column_ids,
                               std::shared_ptr<BatchPool> pool, bool narrow_values,
                               std::shared_ptr<const TransformPlan> transforms)
    : unpacker_(rows, dtype),
      transformed_(transforms == nullptr
                       ? nullptr
                       : make_transformed_rows(*transforms, rows, columns, dtype, layout)),
      layout_(layout),
      shape_(batch_shape(transforms.get(), columns, dtype)),
      value_bytes_(size_of(dtype)),
      column_ids_(std::move(column_ids)),
      pool_(std::move(pool)) {
  if (narrow_values && transformed_ == nullptr && layout == BatchLayout::kCsr &&
      value_bytes_ > size_of(DataType::kUInt16)) {
    narrow_.emplace(rows, DataType::kUInt16);
  }
}

size_t BatchAssembler::batch_bytes(uint64_t rows, uint64_t nnz) const {
  if (layout_ == BatchLayout::kCsr && nnz > uint64_t{std::numeric_limits<int32_t>::max()}) {
    throw InvalidArgument(
        concat("a CSR batch has more than 2^31 - 1 non-zeros; choose a smaller "
               "batch_size: ",
               rows, " rows with ", nnz, " non-zeros"));
  }
  return Parts(layout_, shape_, rows, nnz).total;
}

std::shared_ptr<const Batch> BatchAssembler::assemble(std::span<const PackedRowRef> rows,
                                                      std::optional<uint32_t> repeated_row) const {
  uint64_t nnz = 0;
  for (const PackedRowRef& row : rows) nnz += row.nnz;
  auto block = pool_->take(batch_bytes(rows.size(), nnz));
  return assemble_at(block.data, std::move(block.owner), rows, repeated_row);
}

std::shared_ptr<Batch> BatchAssembler::assemble_at(std::byte* base, std::shared_ptr<void> owner,
                                                   std::span<const PackedRowRef> rows,
                                                   std::optional<uint32_t> repeated_row) const {
  uint64_t nnz = 0;
  for (const PackedRowRef& row : rows) nnz += row.nnz;
  Parts parts(layout_, shape_, rows.size(), nnz);
  parts.base = base;

  auto* const joinids = parts.at<int64_t>(parts.joinids);
  auto* const positions = parts.at<int64_t>(parts.positions);
  for (size_t i = 0; i < rows.size(); ++i) {
    joinids[i] = rows[i].joinid;
    positions[i] = rows[i].position;
  }
  auto batch = BatchAccess::make();
  BatchAccess::set_storage(*batch, std::move(owner));
  BatchAccess::set_rows(*batch, {joinids, rows.size()}, {positions, rows.size()});
  BatchAccess::set_repeated_row(*batch, repeated_row);
  std::byte* const values = parts.at<std::byte>(parts.values);
  DataType dtype = shape_.dtype;
  if (layout_ == BatchLayout::kCsr) {
    dtype = fill_csr_values(rows, parts, nnz);
    BatchAccess::set_values(*batch, {parts.at<int32_t>(parts.indptr), rows.size() + 1},
                            {parts.at<int32_t>(parts.indices), nnz}, values);
  } else {
    fill_dense(rows, parts);
    BatchAccess::set_values(*batch, {}, {}, values);
    if (shape_.tokens) {
      BatchAccess::set_lengths(*batch, {parts.at<int32_t>(parts.lengths), rows.size()});
    }
  }
  BatchAccess::set_shape(*batch, static_cast<uint32_t>(rows.size()), shape_.columns, nnz, dtype,
                         layout_);
  return batch;
}

DataType BatchAssembler::fill_csr_values(std::span<const PackedRowRef> rows, const Parts& parts,
                                         uint64_t& nnz) const {
  if (transformed_ != nullptr) {
    nnz = transformed_->fill_csr(
        rows, parts.at<int32_t>(parts.indptr), parts.at<int32_t>(parts.indices),
        parts.at<std::byte>(parts.values),
        [this](const PackedRowRef& row, uint32_t entry) { fail_misfit(row, entry); });
    return shape_.dtype;
  }
  if (narrow_ && fill_csr(rows, parts, *narrow_).entry == kernel::kNoMisfit) {
    return narrow_->output_type();
  }
  const Misfit misfit = fill_csr(rows, parts, unpacker_);
  if (misfit.entry != kernel::kNoMisfit) fail_misfit(rows[misfit.row], misfit.entry);
  return unpacker_.output_type();
}

BatchAssembler::Misfit BatchAssembler::fill_csr(std::span<const PackedRowRef> rows,
                                                const Parts& parts,
                                                const kernel::RowUnpacker& unpacker) const {
  const size_t value_bytes = size_of(unpacker.output_type());
  auto* const indptr = parts.at<int32_t>(parts.indptr);
  auto* const indices = parts.at<int32_t>(parts.indices);
  auto* const values = parts.at<std::byte>(parts.values);
  size_t done = 0;
  indptr[0] = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i + 1 < rows.size()) prefetch_record(rows[i + 1]);
    const uint32_t misfit =
        unpacker.append_csr(rows[i].record, indices + done, values + done * value_bytes);
    if (misfit != kernel::kNoMisfit) return {i, misfit};
    done += rows[i].nnz;
    indptr[i + 1] = static_cast<int32_t>(done);
  }
  return {};
}

void BatchAssembler::fill_dense(std::span<const PackedRowRef> rows, const Parts& parts) const {
  auto* values = parts.at<std::byte>(parts.values);
  if (transformed_ != nullptr) {
    transformed_->fill_dense(
        rows, values, parts.at<int32_t>(parts.lengths),
        [this](const PackedRowRef& row, uint32_t entry) { fail_misfit(row, entry); });
    return;
  }
  const size_t row_bytes = size_t{shape_.columns} * value_bytes_;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i + 1 < rows.size()) prefetch_record(rows[i + 1]);
    const uint32_t misfit = unpacker_.fill_dense(rows[i].record, values, shape_.columns);
    if (misfit != kernel::kNoMisfit) fail_misfit(rows[i], misfit);
    values += row_bytes;
  }
  kernel::finish_dense();
}

void BatchAssembler::fail_misfit(const PackedRowRef& row, uint32_t entry) const {
  const auto& layout = unpacker_.layout();
  const auto view = kernel::PackedRowView::of(row.record, layout);
  const uint32_t column = kernel::entry_column(view, layout, entry);
  const int64_t gene = column_ids_ != nullptr ? (*column_ids_)[column] : int64_t{column};
  throw InvalidArgument(concat(
      "a value does not fit ", name_of(unpacker_.output_type()),
      (layout_ == BatchLayout::kDense ? " (or the sum of a gene's several values does not)" : ""),
      ": ", kernel::entry_text(view, layout, entry), ", in cell ", row.joinid, ", gene ", gene));
}

}  // namespace penstock::pipeline
