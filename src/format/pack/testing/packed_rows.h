#pragma once

#include <unistd.h>

#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "format/pack/packed_layer.h"
#include "format/row_file/row_file.h"
#include "format/row_file/row_record.h"
#include "format/row_file/testing/random_row.h"
#include "kernel/unpack_row.h"

// Row files in their own folder, and their contents.

namespace penstock::format::pack::testing {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "penstock-pack-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string file(const std::string& name) const { return (path_ / name).string(); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Columns and values (as double, which holds the float32 and small integers of the tests).
using Entries = std::vector<std::pair<uint32_t, double>>;

inline Entries entries_of(const std::byte* record, const kernel::PackedRowLayout& layout) {
  const auto view = kernel::PackedRowView::of(record, layout);
  std::vector<int32_t> columns(view.nnz);
  std::vector<double> values(view.nnz);
  kernel::RowUnpacker(layout, DataType::kFloat64)
      .append_csr(record, columns.data(), reinterpret_cast<std::byte*>(values.data()));
  Entries entries;
  for (uint32_t i = 0; i < view.nnz; ++i) {
    entries.emplace_back(static_cast<uint32_t>(columns[i]), values[i]);
  }
  return entries;
}

/// Returns the entries that a choice of columns leaves.
inline Entries chosen(const Entries& entries, const std::vector<int64_t>& columns) {
  Entries left;
  for (const auto& [column, value] : entries) {
    const auto found = std::lower_bound(columns.begin(), columns.end(), int64_t{column});
    if (found == columns.end() || *found != column) continue;
    left.emplace_back(static_cast<uint32_t>(found - columns.begin()), value);
  }
  return left;
}

struct PackedRows {
  std::map<int64_t, Entries> rows;
  std::vector<std::shared_ptr<const RowFile>> files;
  MatrixInfo info;
};

struct PackedRowsOptions {
  uint32_t column_count = 300;
  int64_t row_count = 2000;
  int64_t rows_per_file = 700;
  uint32_t most_nnz = 120;
  bool gaps = true;  ///< some ids are missing
};

inline PackedRows make_packed_rows(const TemporaryFolder& folder, const PackedRowsOptions& options,
                                   uint64_t seed) {
  std::mt19937_64 random(seed);
  PackedRows made;
  made.info.row_domain_end = options.row_count;
  made.info.column_domain_end = options.column_count;
  made.info.value_type = DataType::kFloat32;
  const auto layout = kernel::make_row_layout(options.column_count, DataType::kFloat32);
  RowEncoder encoder(layout, options.column_count);
  for (int64_t begin = 0; begin < options.row_count; begin += options.rows_per_file) {
    RowFileFacts facts;
    facts.key = content_key("seed " + std::to_string(seed));
    facts.row_begin = begin;
    facts.row_end = std::min(begin + options.rows_per_file, options.row_count);
    facts.column_count = options.column_count;
    facts.value_type = DataType::kFloat32;
    const std::string path = folder.file(std::to_string(begin) + ".rows");
    RowFileWriter writer(path, facts, false);
    for (int64_t id = begin; id < facts.row_end; ++id) {
      if (options.gaps && random() % 5 == 0) continue;
      const auto nnz =
          static_cast<uint32_t>(random() % (std::min(options.most_nnz, options.column_count) + 1));
      const RowKind kind = random() % 8 == 0 ? RowKind::kFractions : RowKind::kCounts;
      const auto row = random_packed_row(random, layout, kind, nnz, options.column_count, false);
      std::vector<std::byte> record;
      encoder.append(row.data(), record);
      writer.append(id, record, nnz);
      made.rows[id] = entries_of(row.data(), layout);
    }
    writer.finish();
    made.files.push_back(RowFile::open(io::file_store(), path));
  }
  return made;
}

}  // namespace penstock::format::pack::testing
