#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "format/cache/cache_folder.h"
#include "format/row_file/encode_unit.h"
#include "format/row_file/row_file.h"
#include "plan/fetch_unit.h"

// What a cache keeps of one matrix: a row file for each fetch unit, of the rows that were asked for
// so far. Any thread; other processes may do the same.

namespace penstock::format::pack {

class UnitCache {
 public:
  /// `facts`: key, columns and type of the rows; their rows are the unit's.
  UnitCache(std::shared_ptr<CacheFolder> folder, const RowFileFacts& facts);

  CacheFolder& folder() const noexcept { return *folder_; }

  /// A file with all of these rows of the unit, or null. Known ones are not looked for.
  std::shared_ptr<const RowFile> find(const plan::FetchUnit& unit, std::span<const int64_t> rows);

  /// Keeps these rows beside those of the unit that are kept already. Errors end the keeping.
  void keep(const plan::FetchUnit& unit, EncodedRows rows) noexcept;

  /// The file is damaged or was removed.
  void drop(const plan::FetchUnit& unit, const RowFile& file) noexcept;

 private:
  std::string unit_folder(const plan::FetchUnit& unit) const;
  bool is_ours(const RowFileFacts& facts, const plan::FetchUnit& unit) const;
  std::vector<std::shared_ptr<const RowFile>> files_of(const plan::FetchUnit& unit);
  std::shared_ptr<const RowFile> merged(const plan::FetchUnit& unit, std::span<const int64_t> rows);
  void write(const plan::FetchUnit& unit, EncodedRows rows);

  std::shared_ptr<CacheFolder> folder_;
  RowFileFacts facts_;
  std::mutex mutex_;
  std::unordered_map<int64_t, std::shared_ptr<const RowFile>> known_;  // by first row of the unit
};

}  // namespace penstock::format::pack
