#include "format/cache/cache_folder.h"

#include <fcntl.h>
#include <penstock/error.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <limits>
#include <system_error>
#include <utility>
#include <vector>

#include "base/byte_size.h"
#include "io/descriptor_cache.h"
#include "io/store.h"

namespace penstock::format::pack {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

/// A file that is unfinished for so long has no living writer.
constexpr auto kAbandonedAfter = 1h;
/// A full folder is listed again only after this time.
constexpr auto kLookAgainAfter = 10s;
/// If another process holds the lock and hangs, no files are kept for this time.
constexpr auto kLockAgainAfter = 60s;
/// Evicting frees one part in so many of the kept bytes at once.
constexpr uint64_t kRoomShare = 50;
/// Without a limit, one part in so many of the disk stays free.
constexpr uint64_t kFreeShare = 20;
constexpr uint64_t kMostFreeBytes = uint64_t{4} << 30;
constexpr std::string_view kBeingWritten = ".tmp";

struct CachedFile {
  fs::path path;
  uint64_t bytes = 0;
  fs::file_time_type used;
};

bool all_of(const std::string& name, std::string_view allowed) {
  return !name.empty() && name.find_first_not_of(allowed) == std::string::npos;
}

int64_t nanoseconds(std::chrono::nanoseconds since_epoch) { return since_epoch.count(); }

int64_t system_now() { return nanoseconds(std::chrono::system_clock::now().time_since_epoch()); }

/// Whether some process has listed the folder just now.
bool is_recent(const CacheRoom& room) {
  const int64_t now = system_now();
  return room.measured <= now && now - room.measured < nanoseconds(kLookAgainAfter);
}

/// Removes a file, and the folder of its unit if it was the last. Returns false if that fails.
bool erase(const std::string& file) noexcept {
  const bool is_gone = ::unlink(file.c_str()) == 0 || errno == ENOENT;
  try {
    io::forget_descriptor(io::normalize(file));
  } catch (...) {
    // Its descriptor is then closed when the descriptor cache evicts it.
  }
  ::rmdir(fs::path(file).parent_path().c_str());
  return is_gone;
}

/// The path was removed meanwhile or was never a folder.
bool is_gone(const std::error_code& error) {
  return error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory ||
         error.value() == ESTALE;
}

[[noreturn]] void fail_to_count(const std::error_code& error, const fs::path& path) {
  throw IoError("cannot tell how much the cache holds (may this user list all of its folders?): " +
                error.message() + ": " + path.string());
}

/// Throws if a folder exists but cannot be listed, because its files would not be counted.
template <typename Body>
void for_each_entry(const fs::path& folder, Body&& body) {
  std::error_code error;
  fs::directory_iterator at(folder, error);
  for (; !error && at != fs::directory_iterator(); at.increment(error)) body(*at);
  if (error && !is_gone(error)) fail_to_count(error, folder);
}

std::optional<CachedFile> cached_file(const fs::directory_entry& entry) {
  const std::string extension = entry.path().extension();
  if (extension != ".rows" && extension != kBeingWritten) return std::nullopt;
  std::error_code error;
  CachedFile found{entry.path(), entry.file_size(error), {}};
  if (error == std::errc::is_a_directory || error == std::errc::not_supported) return std::nullopt;
  if (!error) found.used = entry.last_write_time(error);
  if (!error) return found;
  if (!is_gone(error)) fail_to_count(error, entry.path());
  return std::nullopt;
}

/// Visits the files of the cache, known by their depth and names.
template <typename Body>
void for_each_file(const std::string& folder, Body&& body) {
  for_each_entry(folder, [&](const fs::directory_entry& key) {
    const std::string key_name = key.path().filename();
    if (key_name.size() != 64 || !all_of(key_name, "0123456789abcdef")) return;
    for_each_entry(key.path(), [&](const fs::directory_entry& unit) {
      if (!all_of(unit.path().filename(), "0123456789")) return;
      for_each_entry(unit.path(), [&](const fs::directory_entry& file) {
        if (auto found = cached_file(file)) body(std::move(*found));
      });
    });
  });
}

fs::space_info space_where(const std::string& folder) {
  std::error_code error;
  fs::path there = fs::path(folder);
  while (!there.empty() && !fs::exists(there, error) && there != there.parent_path()) {
    there = there.parent_path();
  }
  return fs::space(there.empty() ? fs::path(".") : there, error);  // all bits are set on errors
}

std::string size_text(uint64_t bytes) { return byte_size(bytes, Rounding::kDown); }

}  // namespace

CacheFolder::CacheFolder(std::string path, uint64_t limit_bytes, SpaceOf space_of)
    : path_(std::move(path)),
      limit_bytes_(limit_bytes),
      space_of_(space_of ? std::move(space_of) : SpaceOf(space_where)),
      begin_(fs::file_time_type::clock::now()) {}

bool CacheFolder::make_room(uint64_t bytes) noexcept {
  if (off_ || bytes > limit_bytes_) return false;
  try {
    return look_for_room(bytes);
  } catch (const std::exception& error) {
    turn_off(error.what());
    return false;
  }
}

bool CacheFolder::look_for_room(uint64_t bytes) {
  const MutexLock guard(mutex_);
  if (is_locked()) return false;
  if (measured_) {
    // In nearly all cases no lock is needed.
    const auto room = read_cache_room(path_);
    if (room && lack(room->total_bytes, bytes, Disk::kHasToHaveIt).none()) return true;
  }
  if (std::chrono::steady_clock::now() < full_until_) return false;
  CacheRoomLock lock(path_);
  return fits(lock, bytes, Disk::kHasToHaveIt).has_value();
}

bool CacheFolder::publish(const std::string& written, const std::string& name, uint64_t bytes) {
  try {
    if (give_name(written, name, bytes)) return true;
  } catch (...) {
    ::unlink(written.c_str());  // keeps its folder: a missing one means a retry
    throw;
  }
  erase(written);
  return false;
}

bool CacheFolder::give_name(const std::string& written, const std::string& name, uint64_t bytes) {
  const MutexLock guard(mutex_);
  if (is_locked()) return false;
  CacheRoomLock lock(path_);
  const auto found = fits(lock, bytes, Disk::kHasIt);
  if (!found) return false;
  // Counted before the rename: a process killed in between leaves the total too large, not too
  // small.
  CacheRoom room = *found;
  room.total_bytes += bytes;
  const auto now = fs::file_time_type::clock::now().time_since_epoch();
  room.oldest = std::min(room.oldest, nanoseconds(now));
  lock.write(room);
  if (::rename(written.c_str(), name.c_str()) == 0) return true;
  const int error = errno;
  room.total_bytes -= bytes;
  lock.write(room);
  throw IoError("cannot write: " + std::generic_category().message(error) + ": " + name);
}

/// Returns the room if `bytes` more fit, after evicting files if needed. Lists the folder only if
/// no process has just done so, and when the limit is reached.
std::optional<CacheRoom> CacheFolder::fits(CacheRoomLock& lock, uint64_t bytes, Disk disk) {
  const auto now = std::chrono::steady_clock::now();
  if (!lock.held()) {
    locked_until_ = now + kLockAgainAfter;
    return std::nullopt;
  }
  auto room = lock.read();
  if (!room || (!measured_ && !is_recent(*room))) room = measure(lock, 0, disk);
  measured_ = true;
  if (lack(room->total_bytes, bytes, disk).none()) return room;
  if (now < full_until_) return std::nullopt;
  // If the folder was just listed and all files are in use, none can be evicted.
  if (!is_recent(*room) || room->oldest < begin_ns()) room = measure(lock, bytes, disk);
  const Lack left = lack(room->total_bytes, bytes, disk);
  if (left.none()) return room;
  full_until_ = now + kLookAgainAfter;
  if (left.on_disk != 0) {
    const fs::space_info space = space_of_(path_);
    turn_off("the disk has only " + size_text(space.available) + " of " +
             size_text(space.capacity) + " free" +
             (limit_bytes_ == kNoLimit ? ", of which some stay free where cache_bytes is not given"
                                       : "") +
             ": " + path_);
  }
  return std::nullopt;
}

/// Returns the bytes that are missing to keep `bytes` more.
CacheFolder::Lack CacheFolder::lack(uint64_t total, uint64_t bytes, Disk disk) const {
  Lack lack;
  if (total > limit_bytes_ || bytes > limit_bytes_ - total) {
    lack.in_limit = total + bytes - limit_bytes_;
  }
  if (disk == Disk::kHasIt) return lack;
  const fs::space_info space = space_of_(path_);
  const uint64_t spare = limit_bytes_ != kNoLimit
                             ? 0
                             : std::min<uint64_t>(space.capacity / kFreeShare, kMostFreeBytes);
  if (space.capacity != static_cast<std::uintmax_t>(-1) && space.available <= bytes + spare) {
    lack.on_disk = bytes + spare - space.available + 1;
  }
  return lack;
}

/// Lists the files, then evicts the least recently used until `bytes` more fit, and a few more.
/// With 0 it only counts.
CacheRoom CacheFolder::measure(CacheRoomLock& lock, uint64_t bytes, Disk disk) {
  std::vector<CachedFile> files;
  CacheRoom room{0, 0, std::numeric_limits<int64_t>::max()};
  const auto now = fs::file_time_type::clock::now();
  for_each_file(path_, [&](CachedFile&& file) {
    if (file.path.extension() == kBeingWritten) {
      if (now - file.used > kAbandonedAfter) erase(file.path);
      return;
    }
    room.total_bytes += file.bytes;
    files.push_back(std::move(file));
  });
  std::sort(files.begin(), files.end(),
            [](const CachedFile& a, const CachedFile& b) { return a.used < b.used; });
  if (!files.empty()) room.oldest = nanoseconds(files.front().used.time_since_epoch());
  room.measured = system_now();
  try {
    lock.write(room);
  } catch (const IoError&) {
    // The disk is full. Evicting frees room, and a later write stores the number.
  }
  if (bytes == 0) return room;
  const uint64_t more = std::min(limit_bytes_, room.total_bytes) / kRoomShare;
  const Lack lacking = lack(room.total_bytes, bytes + more, disk);
  const uint64_t goal = std::max(lacking.in_limit, lacking.on_disk);
  uint64_t gone = 0;
  room.oldest = std::numeric_limits<int64_t>::max();
  for (const CachedFile& file : files) {
    if (gone < goal && file.used < begin_ && erase(file.path)) {
      gone += file.bytes;
    } else {
      room.oldest = std::min(room.oldest, nanoseconds(file.used.time_since_epoch()));
    }
  }
  room.total_bytes -= gone;
  lock.write(room);
  return room;
}

int64_t CacheFolder::begin_ns() const noexcept { return nanoseconds(begin_.time_since_epoch()); }

void CacheFolder::touch(const std::string& file) noexcept {
  static_cast<void>(::utimensat(AT_FDCWD, file.c_str(), nullptr, 0));
}

void CacheFolder::remove(const std::string& file) noexcept {
  try {
    const MutexLock guard(mutex_);
    if (is_locked()) {
      erase(file);  // counted until the folder is listed again
      return;
    }
    CacheRoomLock lock(path_, CacheRoomLock::Missing::kLeave);
    if (!lock.held() && read_cache_room(path_)) {
      locked_until_ = std::chrono::steady_clock::now() + kLockAgainAfter;
    }
    auto room = lock.held() ? lock.read() : std::nullopt;
    std::error_code gone;
    const uint64_t bytes = fs::file_size(file, gone);
    if (!erase(file) || gone || !room) return;
    room->total_bytes -= std::min(bytes, room->total_bytes);
    lock.write(*room);
  } catch (...) {
    erase(file);
  }
}

/// Whether a wait for the lock failed less than kLockAgainAfter ago.
bool CacheFolder::is_locked() const noexcept {
  return std::chrono::steady_clock::now() < locked_until_;
}

void CacheFolder::turn_off(const std::string& reason) {
  const MutexLock lock(problem_mutex_);
  if (problem_.empty()) problem_ = reason;
  off_ = true;
}

std::string CacheFolder::problem() const {
  const MutexLock lock(problem_mutex_);
  return problem_;
}

}  // namespace penstock::format::pack
