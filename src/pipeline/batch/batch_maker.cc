#include "pipeline/batch/batch_maker.h"

#include <penstock/error.h>

#include <algorithm>
#include <utility>

#include "base/memory/buffer.h"
#include "pipeline/batch/batch_access.h"

namespace penstock::pipeline {
namespace {

constexpr size_t align64(size_t bytes) { return (bytes + 63) & ~size_t{63}; }

using ColumnIds = std::shared_ptr<const std::vector<int64_t>>;

/// Ids of a part's columns, as its own matrix numbers them. Null if column i is i.
ColumnIds ids_of(const ChosenPart& part, const ColumnIds& all) {
  if (all == nullptr || part.first_id == 0) return all;
  auto own = std::make_shared<std::vector<int64_t>>(all->begin() + part.first_column,
                                                    all->begin() + part.part.column_end);
  for (int64_t& id : *own) id -= part.first_id;
  return own;
}

}  // namespace

/// Rows of a batch, cut into those of its parts. Threads reuse theirs.
struct BatchMaker::Cut {
  std::vector<std::vector<PackedRowRef>> rows;  ///< of each part
  std::vector<uint64_t> nnz;                    ///< of each part
  std::vector<kernel::RowSplitter::Part> pieces;
  Buffer memory;
};

BatchMaker::BatchMaker(const kernel::PackedRowLayout& rows, const LoaderOptions& options,
                       uint32_t columns, ColumnIds column_ids, std::shared_ptr<BatchPool> pool)
    : rows_(rows), columns_(columns), pool_(std::move(pool)) {
  const auto parts = chosen_parts(options, column_ids.get(), columns);
  if (!options.parts.empty()) {
    std::vector<uint32_t> ends;
    ends.reserve(parts.size());
    for (const ChosenPart& each : parts) {
      ends.push_back(static_cast<uint32_t>(each.part.column_end));
    }
    splitter_.emplace(rows, std::move(ends));
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    const BatchPart& part = parts[i].part;
    assemblers_.push_back(std::make_unique<const BatchAssembler>(
        splitter_ ? splitter_->layout(i) : rows, part.layout, part.dtype, parts[i].columns(),
        ids_of(parts[i], column_ids), pool_, options.narrow_values, part.transforms));
    names_.push_back(part.name);
  }
}

size_t BatchMaker::batch_bytes(uint64_t rows, uint64_t nnz) const {
  if (!splitter_) return assemblers_.front()->batch_bytes(rows, nnz);
  size_t fixed = 0;
  size_t most = 0;
  for (const auto& assembler : assemblers_) {
    const size_t empty = assembler->batch_bytes(rows, 0);
    fixed += align64(empty) + align64(rows);
    // All non-zeros may be in the part where one takes most.
    most = std::max(most, assembler->batch_bytes(rows, nnz) - empty);
  }
  return fixed + most + assemblers_.size() * 3 * 64;
}

void BatchMaker::cut(std::span<const PackedRowRef> rows, Cut& cut) const {
  const size_t parts = assemblers_.size();
  cut.rows.resize(parts);
  cut.nnz.assign(parts, 0);
  cut.pieces.resize(parts);
  for (auto& each : cut.rows) each.clear();
  size_t bytes = 0;
  for (const PackedRowRef& row : rows) bytes += splitter_->split_bytes(row.record);
  cut.memory.resize_discard(bytes);
  std::byte* at = cut.memory.data();
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i + 1 < rows.size()) prefetch_record(rows[i + 1]);
    at += splitter_->split(rows[i].record, at, cut.pieces);
    for (size_t part = 0; part < parts; ++part) {
      PackedRowRef own = rows[i];
      own.record = cut.pieces[part].record;
      own.nnz = cut.pieces[part].nnz;
      own.stored_bytes = 0;
      cut.rows[part].push_back(own);
      cut.nnz[part] += own.nnz;
    }
  }
}

std::shared_ptr<Batch> BatchMaker::assemble(size_t part, std::byte* at, std::shared_ptr<void> owner,
                                            std::span<const PackedRowRef> rows,
                                            std::optional<uint32_t> repeated_row) const {
  try {
    return assemblers_[part]->assemble_at(at, std::move(owner), rows, repeated_row);
  } catch (const InvalidArgument& error) {
    if (names_[part].empty()) throw;
    throw InvalidArgument(names_[part] + ": " + error.what());
  }
}

std::shared_ptr<const Batch> BatchMaker::make(std::span<const PackedRowRef> rows,
                                              std::optional<uint32_t> repeated_row) const {
  if (!splitter_) return assemblers_.front()->assemble(rows, repeated_row);
  thread_local Cut pieces;
  cut(rows, pieces);
  uint64_t nnz = 0;
  for (const uint64_t own : pieces.nnz) nnz += own;
  const auto block = pool_->take(batch_bytes(rows.size(), nnz));
  std::byte* at = block.data;
  std::vector<std::shared_ptr<const Batch>> parts;
  for (size_t i = 0; i < assemblers_.size(); ++i) {
    const std::vector<PackedRowRef>& own = pieces.rows[i];
    auto part = assemble(i, at, block.owner, own, repeated_row);
    at += align64(assemblers_[i]->batch_bytes(own.size(), pieces.nnz[i]));
    auto* const missing = reinterpret_cast<uint8_t*>(at);
    for (size_t row = 0; row < own.size(); ++row) missing[row] = own[row].nnz == 0 ? 1 : 0;
    at += align64(own.size());
    BatchAccess::set_missing(*part, {missing, own.size()});
    parts.push_back(std::move(part));
  }
  auto batch = BatchAccess::make();
  BatchAccess::set_shape(*batch, static_cast<uint32_t>(rows.size()), columns_, nnz,
                         parts.front()->dtype(), parts.front()->layout());
  BatchAccess::set_rows(*batch, parts.front()->joinids(), parts.front()->positions());
  BatchAccess::set_repeated_row(*batch, repeated_row);
  BatchAccess::set_storage(*batch, block.owner);
  BatchAccess::set_parts(*batch, std::move(parts));
  return batch;
}

}  // namespace penstock::pipeline
