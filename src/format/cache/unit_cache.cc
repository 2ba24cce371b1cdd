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
#include <utility>

#include "base/hex.h"
#include "format/cache/shared_mode.h"
#include "format/row_file/row_record.h"
#include "io/file_store.h"
#include "kernel/pack_row.h"

namespace penstock::format::pack {
namespace {

/// To make a file whose folder others may remove meanwhile.
constexpr int kMostTries = 1000;

bool has_all(const RowFile& file, std::span<const int64_t> rows) {
  return std::all_of(rows.begin(), rows.end(), [&](int64_t row) { return file.contains(row); });
}

bool all_have(std::span<const std::shared_ptr<const RowFile>> files,
              std::span<const int64_t> rows) {
  return std::all_of(rows.begin(), rows.end(), [&](int64_t row) {
    return std::any_of(files.begin(), files.end(),
                       [&](const auto& file) { return file->contains(row); });
  });
}

/// A name that no other file has had.
std::string new_name() {
  static std::atomic<uint64_t> count{0};
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  return std::to_string(now) + "-" + std::to_string(::getpid()) + "-" +
         std::to_string(count.fetch_add(1, std::memory_order_relaxed)) + ".rows";
}

using Records = std::map<int64_t, std::pair<std::vector<std::byte>, uint32_t>>;

/// The intact records of a file that are not there yet.
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

/// Files of the unit that are there and ours; what is not is removed.
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
      // Of a newer Penstock, which has it still.
    }
  }
  return files;
}

std::shared_ptr<const RowFile> UnitCache::find(const plan::FetchUnit& unit,
                                               std::span<const int64_t> rows) {
  {
    const std::lock_guard lock(mutex_);
    const auto known = known_.find(unit.row_begin);
    if (known != known_.end() && has_all(*known->second, rows)) return known->second;
  }
  try {
    const auto files = files_of(unit);
    for (const auto& file : files) {
      if (!has_all(*file, rows)) continue;
      const std::lock_guard lock(mutex_);
      known_[unit.row_begin] = file;
      return file;
    }
    if (files.size() > 1 && all_have(files, rows)) return merged(unit, rows);
  } catch (const Error&) {
    // A folder that cannot be listed has nothing.
  }
  return nullptr;
}

/// Ranks that share a unit and came at the same time have each kept their own rows of it.
std::shared_ptr<const RowFile> UnitCache::merged(const plan::FetchUnit& unit,
                                                 std::span<const int64_t> rows) {
  keep(unit, {});
  const std::lock_guard lock(mutex_);
  const auto known = known_.find(unit.row_begin);
  return known != known_.end() && has_all(*known->second, rows) ? known->second : nullptr;
}

void UnitCache::drop(const plan::FetchUnit& unit, const RowFile& file) noexcept {
  folder_->remove(file.path());
  const std::lock_guard lock(mutex_);
  const auto known = known_.find(unit.row_begin);
  if (known != known_.end() && known->second.get() == &file) known_.erase(known);
}

void UnitCache::keep(const plan::FetchUnit& unit, EncodedRows rows) noexcept {
  try {
    if (folder_->is_on()) write(unit, std::move(rows));
  } catch (const std::exception& error) {
    folder_->turn_off(error.what());
  }
}

void UnitCache::write(const plan::FetchUnit& unit, EncodedRows rows) {
  const auto before = files_of(unit);
  if (!before.empty()) {
    Records records;
    size_t offset = 0;
    for (size_t i = 0; i < rows.rows.size(); ++i) {
      const auto* const begin = rows.bytes.data() + offset;
      records[rows.rows[i]] = {std::vector<std::byte>(begin, begin + rows.lengths[i]), rows.nnz[i]};
      offset += rows.lengths[i];
    }
    for (const auto& file : before) {
      try {
        add_records(*file, records);
      } catch (const Error&) {
        // Damaged or just removed by somebody else: what is left of it is not needed.
      }
    }
    rows = encoded(records);
  }
  if (rows.rows.empty() || !folder_->make_room(rows.bytes.size() + rows.rows.size() * 4)) return;
  const std::string folder = unit_folder(unit);
  RowFileFacts facts = facts_;
  facts.row_begin = unit.row_begin;
  facts.row_end = rows.rows.back() + 1;
  const std::string path = io::join(folder, new_name());
  const std::string written = path + ".tmp";
  std::shared_ptr<const RowFile> file;
  for (int tries = 1;; ++tries) {
    try {
      make_shared_folder(folder_->path(), folder);
      RowFileWriter writer(written, facts, false);
      rows.append_to(writer);
      const uint64_t bytes = writer.finish();
      share_file(folder_->path(), written);
      if (!folder_->publish(written, path, bytes)) return;
      break;
    } catch (const IoError&) {
      // Whoever removes a unit's last file takes its folder along, also one that is empty yet. With
      // the folder there it is the disk that fails.
      std::error_code unknown;
      if (tries == kMostTries || std::filesystem::is_directory(folder, unknown)) throw;
    }
  }
  try {
    file = RowFile::open(io::file_store(), path);
  } catch (const NotFound&) {
    return;  // it was removed already, for room that others need
  }
  {
    const std::lock_guard lock(mutex_);
    known_[unit.row_begin] = file;
  }
  // Others that hold nothing more. Two writers of the same rows agree on which file stays.
  for (const auto& other : files_of(unit)) {
    if (other->path() == path || !has_all(*file, other->rows().to_vector())) continue;
    const bool mine_goes = other->rows().size() == file->rows().size() && other->path() < path;
    folder_->remove(mine_goes ? path : other->path());
    if (!mine_goes) continue;
    const std::lock_guard lock(mutex_);
    known_[unit.row_begin] = other;
    return;
  }
}

}  // namespace penstock::format::pack
