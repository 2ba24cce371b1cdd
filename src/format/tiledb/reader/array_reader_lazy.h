#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/lazy.h"
#include "format/tiledb/reader/array_reader.h"
#include "format/tiledb/reader/array_reader_overlap.h"

namespace penstock::format::tiledb {

/// What an ArrayReader loads when it is first needed.
struct ArrayReader::OnDemand {
  Lazy<std::vector<ColumnInfo>> columns;

  std::mutex categories_mutex;
  std::map<std::string, std::shared_ptr<const Categories>> categories;  // by enumeration

  Lazy<ReplacedCells> replaced;
};

}  // namespace penstock::format::tiledb
