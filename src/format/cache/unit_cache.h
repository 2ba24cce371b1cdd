#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/threads/mutex.h"
#include "format/cache/cache_folder.h"
#include "format/row_file/encode_unit.h"
#include "format/row_file/row_file.h"
#include "plan/fetch_unit.h"

// The part of a cache that belongs to one matrix: a row file for each fetch unit, with the rows
// that were read so far. Any thread; other processes may use the same files.

namespace penstock::format::pack {

class UnitCache {
 public:
  /// `facts`: key, columns and type of the rows. Row ranges are taken from the units.
  UnitCache(std::shared_ptr<CacheFolder> folder, const RowFileFacts& facts);

  CacheFolder& folder() const noexcept { return *folder_; }

  /// Returns a file with all of these rows of the unit, or null. Open files are not looked for
  /// again.
  std::shared_ptr<const RowFile> find(const plan::FetchUnit& unit, std::span<const int64_t> rows);

  /// Adds these rows to those of the unit that are kept already. Errors turn the cache off.
  void keep(const plan::FetchUnit& unit, EncodedRows rows) noexcept;

  /// Forgets a file that is damaged or was removed.
  void drop(const plan::FetchUnit& unit, const RowFile& file) noexcept;

 private:
  std::string unit_folder(const plan::FetchUnit& unit) const;
  bool is_ours(const RowFileFacts& facts, const plan::FetchUnit& unit) const;
  std::vector<std::shared_ptr<const RowFile>> files_of(const plan::FetchUnit& unit);
  std::shared_ptr<const RowFile> write(const plan::FetchUnit& unit, EncodedRows rows) noexcept;
  std::shared_ptr<const RowFile> merge_files(const plan::FetchUnit& unit) noexcept;
  std::shared_ptr<const RowFile> publish(const plan::FetchUnit& unit, const EncodedRows& rows);
  std::shared_ptr<const RowFile> drop_redundant(const plan::FetchUnit& unit,
                                                std::shared_ptr<const RowFile> file);
  void remember(const plan::FetchUnit& unit, std::shared_ptr<const RowFile> file);

  std::shared_ptr<CacheFolder> folder_;
  RowFileFacts facts_;
  Mutex mutex_;
  std::unordered_map<int64_t, std::shared_ptr<const RowFile>> known_
      PENSTOCK_GUARDED_BY(mutex_);  // by first row of the unit
};

}  // namespace penstock::format::pack
