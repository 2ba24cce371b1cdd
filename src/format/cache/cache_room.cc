#include "format/cache/cache_room.h"

#include <fcntl.h>
#include <penstock/error.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include "base/hash/checksum.h"
#include "format/pack/written_files.h"
#include "io/store.h"

namespace penstock::format::pack {
namespace {

using namespace std::chrono_literals;

/// Listing a large folder on a slow disk holds the lock for seconds, a stopped process for ever.
constexpr auto kPatience = 5s;
constexpr auto kPause = 1ms;
/// Attempts to make a file whose folder others may remove meanwhile.
constexpr int kMostTries = 100;
/// Follows no links and does not wait for the writer of a pipe.
constexpr int kOpenFlags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
constexpr std::array<char, 8> kMagic = {'P', 'S', 'R', 'O', 'O', 'M', '0', '1'};

/// The whole file.
struct RoomBytes {
  std::array<char, 8> magic = kMagic;
  CacheRoom room;
  uint32_t zero = 0;
  uint32_t checksum = 0;  ///< of the bytes before
};
static_assert(sizeof(RoomBytes) == 40);

uint32_t checksum_of(const RoomBytes& bytes) {
  const auto all = std::as_bytes(std::span(&bytes, 1));
  return crc32c(all.first(offsetof(RoomBytes, checksum)));
}

std::optional<CacheRoom> read_from(int fd) {
  RoomBytes bytes;
  if (::pread(fd, &bytes, sizeof bytes, 0) != static_cast<ssize_t>(sizeof bytes) ||
      bytes.magic != kMagic || bytes.checksum != checksum_of(bytes)) {
    return std::nullopt;
  }
  return bytes.room;
}

[[noreturn]] void fail(const std::string& path, int error) {
  throw IoError("cannot write: " + std::generic_category().message(error) + ": " + path);
}

}  // namespace

std::optional<CacheRoom> read_cache_room(const std::string& folder) {
  const int fd = ::open(io::join(folder, kCacheRoomName).c_str(), O_RDONLY | kOpenFlags);
  if (fd < 0) return std::nullopt;
  const auto room = read_from(fd);
  ::close(fd);
  return room;
}

CacheRoomLock::CacheRoomLock(const std::string& folder, Missing missing)
    : path_(io::join(folder, kCacheRoomName)) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (open(folder, missing)) {
    // Each open() has its own lock, even in a child that is forked meanwhile.
    if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) {
      struct stat found {};
      if (::fstat(fd_, &found) == 0 && found.st_nlink > 0) return;
      close();  // it was removed meanwhile
    } else {
      if (errno != EWOULDBLOCK && errno != EINTR) return;  // no locks here
      ::close(std::exchange(fd_, -1));
    }
    if (std::chrono::steady_clock::now() > until) return;
    std::this_thread::sleep_for(kPause);
  }
}

CacheRoomLock::~CacheRoomLock() { close(); }

/// Returns false if the file is missing and `missing` is kLeave.
bool CacheRoomLock::open(const std::string& folder, Missing missing) {
  fd_ = ::open(path_.c_str(), O_RDWR | kOpenFlags);
  for (int tries = 1; fd_ < 0 && errno == ENOENT; ++tries) {
    if (missing == Missing::kLeave || tries == kMostTries) break;
    make_folder(folder);
    fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | kOpenFlags, 0666);
    struct stat place {};
    if (fd_ >= 0 && ::stat(folder.c_str(), &place) == 0) {
      // For everyone who may write to the folder; its group may be another than ours.
      static_cast<void>(::fchown(fd_, static_cast<uid_t>(-1), place.st_gid));
      static_cast<void>(::fchmod(fd_, place.st_mode & 0666));
    }
  }
  if (fd_ >= 0) return true;
  if (missing == Missing::kLeave) return false;
  fail(path_, errno);
}

void CacheRoomLock::close() noexcept {
  if (fd_ < 0) return;
  ::flock(fd_, LOCK_UN);  // a child forked meanwhile has it open, too
  ::close(std::exchange(fd_, -1));
}

std::optional<CacheRoom> CacheRoomLock::read() const { return read_from(fd_); }

void CacheRoomLock::write(const CacheRoom& room) {
  RoomBytes bytes;
  bytes.room = room;
  bytes.checksum = checksum_of(bytes);
  const ssize_t count = ::pwrite(fd_, &bytes, sizeof bytes, 0);
  if (count != static_cast<ssize_t>(sizeof bytes)) fail(path_, count < 0 ? errno : ENOSPC);
}

}  // namespace penstock::format::pack
