#include "format/pack/layer_writer.h"

#include <penstock/error.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/hash/hex.h"
#include "io/file_store.h"

namespace penstock::format::pack {
namespace {

/// The rows of the files; positions in the files become positions among these.
RowSelection rows_of(std::vector<RowFilePlan>& files, const RowSelection& rows) {
  if (files.empty() || files.back().end - files.front().first == rows.size()) return rows;
  const uint64_t before = files.front().first;
  for (RowFilePlan& file : files) {
    file.first -= before;
    file.end -= before;
  }
  return rows & RowSelection::range(files.front().facts.row_begin, files.back().facts.row_end);
}

}  // namespace

LayerWriter::LayerWriter(MatrixSourcePtr source, const RowSelection& rows,
                         const RowFileFacts& facts, std::vector<RowFilePlan> files,
                         std::string folder, const RowBandOptions& options)
    : source_(std::move(source)),
      facts_(facts),
      rows_(rows_of(files, rows)),
      files_(std::move(files)),
      folder_(std::move(folder)),
      options_(options) {}

/// Whether a valid file exists. Damaged files and files of other content are written again.
bool LayerWriter::kept(const RowFilePlan& plan) {
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
  const RowFilePlan& plan = files_[file_];
  if (writer_ == nullptr) {
    if (kept(plan)) {
      rows_done_ += plan.end - plan.first;
      rows_kept_ += plan.end - plan.first;
      ++file_;
      return true;
    }
    if (feed_ == nullptr) {
      feed_ = make_row_feed(source_, rows_, facts_.column_count, options_);
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
  for (const RowFilePlan& file : files_) contents.files.push_back(file.name);
  return contents;
}

}  // namespace penstock::format::pack
