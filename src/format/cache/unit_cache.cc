#include "format/cache/unit_cache.h"

#include <penstock/error.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <filesystem>
#include <map>
#include <system_error>
#include <thread>
#include <utility>

#include "base/hash/hex.h"
#include "format/cache/shared_mode.h"
#include "format/row_file/row_record.h"
#include "io/file_store.h"
#include "kernel/pack_row.h"

namespace penstock::format::pack {
namespace {

/// Another process may remove the folder of a unit before the new file is in it. The last try comes
/// about a second after the first.
constexpr int kMostTries = 1000;
constexpr int kMostTriesInAFolder = 3;
constexpr auto kPauseStep = std::chrono::microseconds(20);
constexpr auto kLongestPause = std::chrono::microseconds(1000);

bool contains_all(const RowFile& file, std::span<const int64_t> rows) {
  return std::all_of(rows.begin(), rows.end(), [&](int64_t row) { return file.contains(row); });
}

bool contain_all(std::span<const std::shared_ptr<const RowFile>> files,
                 std::span<const int64_t> rows) {
  return std::all_of(rows.begin(), rows.end(), [&](int64_t row) {
    return std::any_of(files.begin(), files.end(),
                       [&](const auto& file) { return file->contains(row); });
  });
}

/// Returns a name that no file has had before.
std::string new_name() {
  static std::atomic<uint64_t> count{0};
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  return std::to_string(now) + "-" + std::to_string(::getpid()) + "-" +
         std::to_string(count.fetch_add(1, std::memory_order_relaxed)) + ".rows";
}

using Records = std::map<int64_t, std::pair<std::vector<std::byte>, uint32_t>>;

/// Adds the intact records of a file that `records` lacks.
void add_records(const RowFile& file, Records& records) {
  const RowFileFacts& facts = file.facts();
  const RowDecoder decoder(kernel::make_row_layout(facts.column_count, facts.value_type),
                           facts.column_count);
  const std::vector<int64_t> rows = file.rows().to_vector();
  for (uint64_t i = 0; i < rows.size(); ++i) {
    if (records.contains(rows[i])) continue;
    const RecordPlace place = file.place(i);
    std::vector<std::byte> record(place.length);
    file.read(place.offset, record);
    if (!decoder.intact(record)) continue;
    const uint32_t nnz = decoder.shape(record).nnz;
    records.emplace(rows[i], std::pair(std::move(record), nnz));
  }
}

EncodedRows encoded(const Records& records) {
  EncodedRows rows;
  for (const auto& [row, record] : records) {
    rows.rows.push_back(row);
    rows.lengths.push_back(record.first.size());
    rows.nnz.push_back(record.second);
    rows.bytes.insert(rows.bytes.end(), record.first.begin(), record.first.end());
  }
  return rows;
}

/// These rows and the intact ones of the files.
EncodedRows merge(const EncodedRows& rows, std::span<const std::shared_ptr<const RowFile>> files) {
  Records records;
  size_t offset = 0;
  for (size_t i = 0; i < rows.rows.size(); ++i) {
    const auto* const begin = rows.bytes.data() + offset;
    records[rows.rows[i]] = {std::vector<std::byte>(begin, begin + rows.lengths[i]), rows.nnz[i]};
    offset += rows.lengths[i];
  }
  for (const auto& file : files) {
    try {
      add_records(*file, records);
    } catch (const Error&) {
      // The file is damaged or was just removed. Its other records are not needed.
    }
  }
  return encoded(records);
}

}  // namespace

UnitCache::UnitCache(std::shared_ptr<CacheFolder> folder, const RowFileFacts& facts)
    : folder_(std::move(folder)), facts_(facts) {}

std::string UnitCache::unit_folder(const plan::FetchUnit& unit) const {
  return io::join(io::join(folder_->path(), hex(facts_.key)), std::to_string(unit.row_begin));
}

bool UnitCache::is_ours(const RowFileFacts& facts, const plan::FetchUnit& unit) const {
  return facts.key == facts_.key && facts.column_count == facts_.column_count &&
         facts.value_type == facts_.value_type && facts.row_begin == unit.row_begin;
}

/// Returns the valid files of the unit and removes invalid ones.
std::vector<std::shared_ptr<const RowFile>> UnitCache::files_of(const plan::FetchUnit& unit) {
  std::vector<std::shared_ptr<const RowFile>> files;
  const std::string folder = unit_folder(unit);
  for (const auto& entry : io::FileStore().list(folder)) {
    if (!entry.name.ends_with(".rows")) continue;
    const std::string path = io::join(folder, entry.name);
    try {
      auto file = RowFile::open(io::file_store(), path);
      if (is_ours(file->facts(), unit)) {
        files.push_back(std::move(file));
      } else {
        folder_->remove(path);
      }
    } catch (const NotFound&) {
    } catch (const CorruptData&) {
      folder_->remove(path);
    } catch (const Unsupported&) {
      // Written by a newer Penstock, which still uses it.
    }
  }
  return files;
}

std::shared_ptr<const RowFile> UnitCache::find(const plan::FetchUnit& unit,
                                               std::span<const int64_t> rows) {
  {
    const MutexLock lock(mutex_);
    const auto known = known_.find(unit.row_begin);
    if (known != known_.end() && contains_all(*known->second, rows)) return known->second;
  }
  try {
    const auto files = files_of(unit);
    for (const auto& file : files) {
      if (!contains_all(*file, rows)) continue;
      remember(unit, file);
      return file;
    }
    if (files.size() > 1 && contain_all(files, rows)) {
      // Ranks that share the unit came at the same time, and each kept its own rows.
      const auto merged = merge_files(unit);
      if (merged != nullptr && contains_all(*merged, rows)) return merged;
    }
  } catch (const Error&) {
    // A folder that cannot be listed has nothing.
  }
  return nullptr;
}

void UnitCache::remember(const plan::FetchUnit& unit, std::shared_ptr<const RowFile> file) {
  const MutexLock lock(mutex_);
  known_[unit.row_begin] = std::move(file);
}

void UnitCache::drop(const plan::FetchUnit& unit, const RowFile& file) noexcept {
  folder_->remove(file.path());
  const MutexLock lock(mutex_);
  const auto known = known_.find(unit.row_begin);
  if (known != known_.end() && known->second.get() == &file) known_.erase(known);
}

void UnitCache::keep(const plan::FetchUnit& unit, EncodedRows rows) noexcept {
  write(unit, std::move(rows));
}

/// Writes one file with all that the unit's files have. Returns as write() does.
std::shared_ptr<const RowFile> UnitCache::merge_files(const plan::FetchUnit& unit) noexcept {
  return write(unit, {});
}

/// Writes one file with these rows and all that the unit's files have. Returns the file that has
/// them, null if none was written. Errors turn the cache off.
std::shared_ptr<const RowFile> UnitCache::write(const plan::FetchUnit& unit,
                                                EncodedRows rows) noexcept {
  try {
    if (!folder_->is_on()) return nullptr;
    const auto before = files_of(unit);
    if (!before.empty()) rows = merge(rows, before);
    auto file = publish(unit, rows);
    if (file == nullptr) return nullptr;
    file = drop_redundant(unit, std::move(file));
    remember(unit, file);
    return file;
  } catch (const std::exception& error) {
    folder_->turn_off(error.what());
    return nullptr;
  }
}

/// Null if there is no room for the rows, or another process has removed the file already.
std::shared_ptr<const RowFile> UnitCache::publish(const plan::FetchUnit& unit,
                                                  const EncodedRows& rows) {
  if (rows.rows.empty() || !folder_->make_room(rows.bytes.size() + rows.rows.size() * 4)) {
    return nullptr;
  }
  const std::string folder = unit_folder(unit);
  const std::string path = io::join(folder, new_name());
  const std::string written = path + ".tmp";
  RowFileFacts facts = facts_;
  facts.row_begin = unit.row_begin;
  facts.row_end = rows.rows.back() + 1;
  int tries_in_folder = 0;
  for (int tries = 1;; ++tries) {
    try {
      make_shared_folder(folder_->path(), folder);
      RowFileWriter writer(written, facts, false);
      rows.append_to(writer);
      const uint64_t bytes = writer.finish();
      share_file(folder_->path(), written);
      if (!folder_->publish(written, path, bytes)) return nullptr;
      break;
    } catch (const IoError&) {
      // Whoever removes a unit's last file removes its folder too, even one that is still empty. If
      // the folder is there, another writer may have made it again, or the disk fails.
      std::error_code unknown;
      tries_in_folder += std::filesystem::is_directory(folder, unknown) ? 1 : 0;
      if (tries == kMostTries || tries_in_folder == kMostTriesInAFolder) throw;
    }
    std::this_thread::sleep_for(std::min(tries * kPauseStep, kLongestPause));
  }
  try {
    return RowFile::open(io::file_store(), path);
  } catch (const NotFound&) {
    return nullptr;
  }
}

/// Removes other files of the unit whose rows are all in `file`. Of two with the same rows the one
/// with the lower path stays, so that two writers agree. Returns the file that stays.
std::shared_ptr<const RowFile> UnitCache::drop_redundant(const plan::FetchUnit& unit,
                                                         std::shared_ptr<const RowFile> file) {
  for (const auto& other : files_of(unit)) {
    if (other->path() == file->path()) continue;
    if (!contains_all(*file, other->rows().to_vector())) continue;
    if (other->rows().size() == file->rows().size() && other->path() < file->path()) {
      folder_->remove(file->path());
      return other;
    }
    folder_->remove(other->path());
  }
  return file;
}

}  // namespace penstock::format::pack
