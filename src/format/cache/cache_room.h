#pragma once

#include <cstdint>
#include <optional>
#include <string>

// How much a cache holds, for all processes that share it: FOLDER/.penstock-room.
//
//   CacheRoomLock lock(folder);   one at a time, of all threads and processes
//   if (lock.held()) lock.write({…});
//
// The lock goes with the process. A file that is missing, damaged or cut off is measured again.

namespace penstock::format::pack {

inline constexpr const char* kCacheRoomName = ".penstock-room";

struct CacheRoom {
  uint64_t total_bytes = 0;  ///< of all files; more than there is after a kill, never less
  int64_t measured = 0;      ///< when the folder was last listed; system clock, ns
  int64_t oldest = 0;        ///< no file was used before; file clock, ns
};

/// What is written there, without the lock: it may change at once.
std::optional<CacheRoom> read_cache_room(const std::string& folder);

class CacheRoomLock {
 public:
  enum class Missing { kMake, kLeave };  ///< of the folder and its file

  /// Waits five seconds at most. Where the file system has no locks, it is held by everyone.
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
