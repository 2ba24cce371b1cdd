#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/threads/lazy.h"
#include "base/threads/mutex.h"
#include "format/tiledb/reader/array_reader.h"
#include "format/tiledb/reader/array_reader_overlap.h"

namespace penstock::format::tiledb {

/// Parts of an ArrayReader that are loaded on first use.
struct ArrayReader::OnDemand {
  Lazy<std::vector<ColumnInfo>> columns;

  Mutex categories_mutex;
  std::map<std::string, std::shared_ptr<const Categories>> categories
      PENSTOCK_GUARDED_BY(categories_mutex);  // by enumeration

  Lazy<ReplacedCells> replaced;
};

}  // namespace penstock::format::tiledb
