#include "format/pack/layer_writer.h"

#include <penstock/error.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/hash/hex.h"
#include "base/threads/parallel.h"
#include "io/file_store.h"
#include "kernel/pack_row.h"

namespace penstock::format::pack {
namespace {

/// Returns names that sort in the order of rows.
std::string file_name(int64_t begin, int64_t end) {
  const auto digits = [](int64_t row) {
    std::string text = std::to_string(row);
    return std::string(12 - std::min<size_t>(12, text.size()), '0') + text;
  };
  return digits(begin) + "-" + digits(end) + ".rows";
}

}  // namespace

LayerWriter::LayerWriter(MatrixSourcePtr source, RowSelection rows, uint64_t stored_columns,
                         const ContentKey& key, std::string folder, uint64_t rows_per_file,
                         unsigned threads)
    : source_(std::move(source)),
      rows_(std::move(rows)),
      folder_(std::move(folder)),
      threads_(thread_count(threads)) {
  std::vector<int64_t> columns(stored_columns);
  std::iota(columns.begin(), columns.end(), int64_t{0});
  reader_ = source_->reader(columns);
  facts_.key = key;
  facts_.column_count = stored_columns;
  facts_.value_type = source_->info().value_type;
  plan_files(std::max<uint64_t>(1, rows_per_file));
}

void LayerWriter::plan_files(uint64_t rows_per_file) {
  const auto units = source_->units();
  for (uint32_t unit = 0; unit < units.size(); ++unit) {
    const uint64_t first = rows_.rank(units[unit].row_begin);
    const uint64_t count = rows_.rank(units[unit].row_end) - first;
    if (count == 0) continue;
    if (files_.empty() || files_.back().count >= rows_per_file) {
      files_.push_back({{}, facts_, first, 0, {}});
    }
    files_.back().units.push_back({unit, first, count});
    files_.back().count += count;
  }
  for (FilePlan& file : files_) {
    file.facts.row_begin = rows_.at(file.first);
    file.facts.row_end = rows_.at(file.first + file.count - 1) + 1;
    file.name = file_name(file.facts.row_begin, file.facts.row_end);
  }
}

std::vector<int64_t> LayerWriter::rows_at(uint64_t first, uint64_t count) const {
  std::vector<int64_t> rows;
  rows_.copy_positions(first, count, rows);
  return rows;
}

/// Whether a valid file exists. Damaged files and files of other content are written again.
bool LayerWriter::kept(const FilePlan& plan) {
  try {
    const auto file = RowFile::open(io::file_store(), io::join(folder_, plan.name));
    if (file->facts().key != plan.facts.key ||
        file->facts().column_count != plan.facts.column_count ||
        file->rows() != RowSelection::from_sorted(rows_at(plan.first, plan.count))) {
      return false;
    }
    nonzeros_ += file->nonzeros();
    stored_bytes_ += file->file_bytes();
    return true;
  } catch (const Error&) {
    return false;
  }
}

bool LayerWriter::step() {
  if (file_ == files_.size()) return false;
  const FilePlan& plan = files_[file_];
  if (writer_ == nullptr) {
    if (kept(plan)) {
      rows_done_ += plan.count;
      rows_kept_ += plan.count;
      ++file_;
      return true;
    }
    writer_ = std::make_unique<RowFileWriter>(io::join(folder_, plan.name), plan.facts, true);
    next_ = 0;
  }
  const size_t count = std::min<size_t>(plan.units.size() - next_, size_t{threads_} * 2);
  std::vector<EncodedRows> encoded(count);
  parallel_for(count, threads_, [&](size_t i) {
    const UnitPlan& unit = plan.units[next_ + i];
    encoded[i] = encode_unit(*reader_, facts_.column_count, unit.unit,
                             rows_at(unit.first, unit.count), pool_);
  });
  for (const EncodedRows& unit : encoded) {
    unit.append_to(*writer_);
    rows_done_ += unit.rows.size();
    bytes_written_ += unit.bytes.size();
    nonzeros_ += std::accumulate(unit.nnz.begin(), unit.nnz.end(), uint64_t{0});
  }
  next_ += count;
  if (next_ < plan.units.size()) return true;
  stored_bytes_ += writer_->finish();
  writer_.reset();
  ++file_;
  return true;
}

PackedLayerContents LayerWriter::contents(const std::string& name) const {
  PackedLayerContents contents;
  contents.name = name;
  contents.value_type = facts_.value_type;
  contents.rows = source_->info().row_domain_end;
  contents.columns = source_->info().column_domain_end;
  contents.nonzeros = nonzeros_;
  contents.stored_bytes = stored_bytes_;
  contents.key = hex(facts_.key);
  for (const FilePlan& file : files_) contents.files.push_back(file.name);
  return contents;
}

}  // namespace penstock::format::pack
