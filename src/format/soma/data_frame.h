#pragma once

#include <penstock/experiment.h>

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/threads/lazy.h"
#include "format/stored_table.h"
#include "format/tiledb/reader/array_reader.h"
#include "io/store.h"

// A SOMA DataFrame: the place of a TileDB array and its reader, made on first use.

namespace penstock::format::soma {

class SomaTable final : public StoredTable {
 public:
  SomaTable(io::StorePtr store, std::string path, tiledb::TimeRange range, unsigned threads)
      : store_(std::move(store)), path_(std::move(path)), range_(range), threads_(threads) {}

  const std::string& uri() const override { return path_; }
  const std::vector<ColumnInfo>& columns() const override { return reader().columns(); }
  uint64_t row_count() const override { return reader().cell_count(); }
  std::string content() const override;
  Table read(const ReadOptions& options) const override;
  RowSelection select(std::string_view value_filter,
                      std::span<const ConstantColumn> constants) const override;
  pack::FileSums copy_to(const std::string& folder) const override;

 private:
  /// Opens the array on first use. If that fails, the next call tries again.
  const tiledb::ArrayReader& reader() const;

  io::StorePtr store_;
  std::string path_;
  tiledb::TimeRange range_;
  unsigned threads_ = 0;
  Lazy<std::shared_ptr<const tiledb::ArrayReader>> reader_;
};

}  // namespace penstock::format::soma
