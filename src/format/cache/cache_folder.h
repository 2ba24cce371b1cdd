#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "format/cache/cache_room.h"

// The folder of a cache, and how much it holds. Any number of processes use one:
//
//   FOLDER/<content key>/<first row of a unit>/<name>.rows
//
// Files are written under another name and renamed, and never changed: a name means one content
// for ever. A file gets its name only where it fits into the limit: that is found out, and what was
// used longest ago removed for it, under a lock of all processes (cache_room.h), which no reader
// takes: one that finds its file gone reads the source. Any thread.

namespace penstock::format::pack {

class CacheFolder {
 public:
  /// Of the file system that a path is on, or would be.
  using SpaceOf = std::function<std::filesystem::space_info(const std::string&)>;
  static constexpr uint64_t kNoLimit = ~uint64_t{0};

  /// Without a limit a twentieth of the disk stays free, 4 GiB at most. Tests say what a disk has.
  CacheFolder(std::string path, uint64_t limit_bytes, SpaceOf space_of = {});

  const std::string& path() const noexcept { return path_; }

  /// Whether so much more may be kept; removes other files where that makes room. Files that were
  /// used since this object was made are not removed. A disk without room, or a folder that cannot
  /// be written, ends the keeping.
  bool make_room(uint64_t bytes) noexcept;

  /// Gives a file of so many bytes, written beside, its name. Where there is no room for it (any
  /// more) it is removed: false.
  bool publish(const std::string& written, const std::string& name, uint64_t bytes);

  /// The file was used now.
  static void touch(const std::string& file) noexcept;
  void remove(const std::string& file) noexcept;

  /// Ends the keeping; the first reason stays.
  void turn_off(const std::string& reason);
  bool is_on() const noexcept { return !off_; }
  std::string problem() const;

 private:
  enum class Disk { kHasToHaveIt, kHasIt };  ///< the bytes that are asked for
  struct Lack {
    uint64_t in_limit = 0, on_disk = 0;  ///< bytes that must go
    bool none() const noexcept { return in_limit == 0 && on_disk == 0; }
  };
  Lack lack(uint64_t total, uint64_t bytes, Disk disk) const;
  bool look_for_room(uint64_t bytes);
  bool give_name(const std::string& written, const std::string& name, uint64_t bytes);
  bool is_locked() const noexcept;
  std::optional<CacheRoom> fits(CacheRoomLock& lock, uint64_t bytes, Disk disk);
  CacheRoom measure(CacheRoomLock& lock, uint64_t bytes, Disk disk);
  int64_t begin_ns() const noexcept;

  std::string path_;
  uint64_t limit_bytes_;
  SpaceOf space_of_;
  std::filesystem::file_time_type begin_;
  std::atomic<bool> off_{false};
  std::mutex mutex_;
  bool measured_ = false;  // guarded by mutex_, as the next
  std::chrono::steady_clock::time_point full_until_{}, locked_until_{};
  mutable std::mutex problem_mutex_;
  std::string problem_;
};

}  // namespace penstock::format::pack
