#pragma once

#include <penstock/table.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/threads/lazy.h"
#include "format/chunked/announce_ranges.h"
#include "format/chunked/array.h"

// One column of an AnnData table: numbers, booleans, strings, categories, and numbers, booleans or
// strings that may be missing. Opening reads the metadata; values are read on demand, categories
// once.

namespace penstock::format::anndata {

class StoredColumn {
 public:
  /// The element `stored_name` of the table's group, shown as `name`. Throws NotFound if it is not
  /// there, Unsupported for an encoding that is not read, CorruptData for arrays that contradict
  /// each other.
  StoredColumn(const chunked::Group& table, const std::string& stored_name, std::string name);

  const ColumnInfo& info() const noexcept { return info_; }
  uint64_t row_count() const noexcept { return values_->info().shape[0]; }

  /// Versions of the stored objects; empty if the store cannot tell.
  std::string version() const;

  /// What read() will read, for chunked::announce_ranges.
  void add_ranges(uint64_t begin, uint64_t end, std::vector<chunked::ArrayRange>& ranges) const;

  /// Rows [begin, end). Strings become codes if many repeat (table::encode_strings).
  Column read(uint64_t begin, uint64_t end, unsigned threads) const;

 private:
  void open_group(const chunked::Group& group, const std::string& encoding);
  void open_categories(chunked::ArrayPtr categories, bool ordered);
  std::shared_ptr<const Categories> categories(unsigned threads) const;
  Column read_codes(uint64_t begin, uint64_t end, unsigned threads) const;

  std::string path_;
  ColumnInfo info_;
  chunked::ArrayPtr values_;      ///< or codes
  chunked::ArrayPtr mask_;        ///< true: missing; null if nothing can be
  chunked::ArrayPtr categories_;  ///< null unless enumerated
  Lazy<std::shared_ptr<const Categories>> read_categories_;
};

}  // namespace penstock::format::anndata
