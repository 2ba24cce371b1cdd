#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/threads/mutex.h"
#include "format/cache/cache_room.h"

// The folder of a cache and its size. Any number of processes may share one folder:
//
//   FOLDER/<content key>/<first row of a unit>/<name>.rows
//
// Files are written under another name, renamed and never changed, so a name always has the same
// content. A file gets its name only if it fits into the limit. This check, and the eviction of the
// least recently used files, run under a lock of all processes (cache_room.h). Readers take no
// lock: a reader that finds its file gone reads the source. Any thread.

namespace penstock::format::pack {

class CacheFolder {
 public:
  /// Space of the file system that holds a path or would hold it.
  using SpaceOf = std::function<std::filesystem::space_info(const std::string&)>;
  static constexpr uint64_t kNoLimit = ~uint64_t{0};

  /// Without a limit, a twentieth of the disk (at most 4 GiB) stays free. Tests pass their own
  /// space.
  CacheFolder(std::string path, uint64_t limit_bytes, SpaceOf space_of = {});

  const std::string& path() const noexcept { return path_; }

  /// Returns whether `bytes` more may be kept. Evicts other files if that makes room, but none that
  /// were used since this object was made. A full disk, or a folder that cannot be written, turns
  /// the cache off.
  bool make_room(uint64_t bytes) noexcept;

  /// Renames a file of `bytes` bytes from `written` to `name`. If there is no room (any more),
  /// removes the file and returns false.
  bool publish(const std::string& written, const std::string& name, uint64_t bytes);

  /// Marks the file as used now.
  static void touch(const std::string& file) noexcept;
  void remove(const std::string& file) noexcept;

  /// Keeps no more files from now on. The first reason is remembered.
  void turn_off(const std::string& reason);
  bool is_on() const noexcept { return !off_; }
  std::string problem() const;

 private:
  enum class Disk { kHasToHaveIt, kHasIt };  ///< enum class Disk
  struct Lack {
    uint64_t in_limit = 0, on_disk = 0;  ///< bytes to evict
    bool none() const noexcept { return in_limit == 0 && on_disk == 0; }
  };
  Lack lack(uint64_t total, uint64_t bytes, Disk disk) const;
  bool look_for_room(uint64_t bytes);
  bool give_name(const std::string& written, const std::string& name, uint64_t bytes);
  bool is_locked() const noexcept PENSTOCK_REQUIRES(mutex_);
  std::optional<CacheRoom> fits(CacheRoomLock& lock, uint64_t bytes, Disk disk)
      PENSTOCK_REQUIRES(mutex_);
  CacheRoom measure(CacheRoomLock& lock, uint64_t bytes, Disk disk);
  int64_t begin_ns() const noexcept;

  std::string path_;
  uint64_t limit_bytes_;
  SpaceOf space_of_;
  std::filesystem::file_time_type begin_;
  std::atomic<bool> off_{false};
  Mutex mutex_;
  bool measured_ PENSTOCK_GUARDED_BY(mutex_) = false;
  std::chrono::steady_clock::time_point full_until_ PENSTOCK_GUARDED_BY(mutex_){};
  std::chrono::steady_clock::time_point locked_until_ PENSTOCK_GUARDED_BY(mutex_){};
  mutable Mutex problem_mutex_;
  std::string problem_ PENSTOCK_GUARDED_BY(problem_mutex_);
};

}  // namespace penstock::format::pack
