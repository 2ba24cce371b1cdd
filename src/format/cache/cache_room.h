#pragma once

#include <cstdint>
#include <optional>
#include <string>

// Bytes that a cache holds, for all processes that share it: FOLDER/.penstock-room.
//
//   CacheRoomLock lock(folder);   one at a time, of all threads and processes
//   if (lock.held()) lock.write({…});
//
// The lock ends with the process. If the file is missing, damaged or truncated, the folder is
// measured again.

namespace penstock::format::pack {

inline constexpr const char* kCacheRoomName = ".penstock-room";

struct CacheRoom {
  uint64_t total_bytes = 0;  ///< of all files; after a kill it may be too large, never too small
  int64_t measured = 0;      ///< when the folder was last listed; system clock, ns
  int64_t oldest = 0;        ///< no file was last used before this; file clock, ns
};

/// Reads the file without the lock, so the answer may be out of date at once.
std::optional<CacheRoom> read_cache_room(const std::string& folder);

class CacheRoomLock {
 public:
  enum class Missing { kMake, kLeave };  ///< if the folder or its file is missing

  /// Waits at most five seconds. If the file system has no locks, everyone holds the lock.
  explicit CacheRoomLock(const std::string& folder, Missing missing = Missing::kMake);
  ~CacheRoomLock();
  CacheRoomLock(const CacheRoomLock&) = delete;
  CacheRoomLock& operator=(const CacheRoomLock&) = delete;

  bool held() const noexcept { return fd_ >= 0; }
  std::optional<CacheRoom> read() const;
  void write(const CacheRoom& room);

 private:
  bool open(const std::string& folder, Missing missing);
  void close() noexcept;

  std::string path_;
  int fd_ = -1;
};

}  // namespace penstock::format::pack
