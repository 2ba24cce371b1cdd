#include "format/pack/layer_writer.h"

#include <penstock/error.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/hash/hex.h"
#include "io/file_store.h"

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
                         const RowBandOptions& options)
    : source_(std::move(source)),
      rows_(std::move(rows)),
      folder_(std::move(folder)),
      feed_(make_row_feed(source_, rows_, stored_columns, options)) {
  facts_.key = key;
  facts_.column_count = stored_columns;
  facts_.value_type = source_->info().value_type;
  uint64_t first = 0;
  for (const uint64_t end : feed_->file_ends(std::max<uint64_t>(1, rows_per_file))) {
    FilePlan file{{}, facts_, first, end};
    file.facts.row_begin = rows_.at(first);
    file.facts.row_end = rows_.at(end - 1) + 1;
    file.name = file_name(file.facts.row_begin, file.facts.row_end);
    files_.push_back(std::move(file));
    first = end;
  }
}

/// Whether a valid file exists. Damaged files and files of other content are written again.
bool LayerWriter::kept(const FilePlan& plan) {
  std::vector<int64_t> rows;
  rows_.copy_positions(plan.first, plan.end - plan.first, rows);
  try {
    const auto file = RowFile::open(io::file_store(), io::join(folder_, plan.name));
    if (file->facts().key != plan.facts.key ||
        file->facts().column_count != plan.facts.column_count ||
        file->rows() != RowSelection::from_sorted(rows)) {
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
      rows_done_ += plan.end - plan.first;
      rows_kept_ += plan.end - plan.first;
      ++file_;
      return true;
    }
    writer_ = std::make_unique<RowFileWriter>(io::join(folder_, plan.name), plan.facts, true);
    next_ = plan.first;
  }
  for (const EncodedRows& encoded : feed_->next(next_, plan.end)) {
    encoded.append_to(*writer_);
    next_ += encoded.rows.size();
    rows_done_ += encoded.rows.size();
    bytes_written_ += encoded.bytes.size();
    nonzeros_ += std::accumulate(encoded.nnz.begin(), encoded.nnz.end(), uint64_t{0});
  }
  if (next_ < plan.end) return true;
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
