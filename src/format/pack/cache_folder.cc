#include "format/pack/cache_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <utility>
#include <vector>

#include "io/descriptor_cache.h"
#include "io/store.h"

namespace penstock::format::pack {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

/// A writer that is alive has not been at one file for so long.
constexpr auto kAbandonedAfter = 1h;
/// A folder that is full is looked through again only then.
constexpr auto kLookAgainAfter = 10s;
/// What is made room for at once, of what is kept.
constexpr uint64_t kRoomShare = 50;
/// Of the disk, where there is no limit.
constexpr uint64_t kFreeShare = 20;
constexpr uint64_t kMostFreeBytes = uint64_t{4} << 30;

struct CachedFile {
  fs::path path;
  uint64_t bytes = 0;
  fs::file_time_type used;
};

bool all_of(const std::string& name, std::string_view allowed) {
  return !name.empty() && name.find_first_not_of(allowed) == std::string::npos;
}

/// What is ours: files at the depth and with the names that caches have.
template <typename Body>
void for_each_file(const std::string& folder, Body&& body) {
  std::error_code error;
  for (fs::directory_iterator key(folder, error); !error && key != fs::directory_iterator();
       key.increment(error)) {
    const std::string key_name = key->path().filename();
    if (key_name.size() != 64 || !all_of(key_name, "0123456789abcdef")) continue;
    std::error_code unit_error;
    for (fs::directory_iterator unit(key->path(), unit_error);
         !unit_error && unit != fs::directory_iterator(); unit.increment(unit_error)) {
      if (!all_of(unit->path().filename(), "0123456789")) continue;
      std::error_code file_error;
      for (fs::directory_iterator file(unit->path(), file_error);
           !file_error && file != fs::directory_iterator(); file.increment(file_error)) {
        std::error_code gone;
        CachedFile found{file->path(), file->file_size(gone), {}};
        if (!gone) found.used = file->last_write_time(gone);
        if (!gone) body(std::move(found));
      }
    }
  }
}

fs::space_info space_where(const std::string& folder) {
  std::error_code error;
  fs::path there = fs::path(folder);
  while (!there.empty() && !fs::exists(there, error) && there != there.parent_path()) {
    there = there.parent_path();
  }
  return fs::space(there.empty() ? fs::path(".") : there, error);  // all bits are set on errors
}

std::string gibibytes(uint64_t bytes) {
  const uint64_t tenths = bytes / ((uint64_t{1} << 30) / 10);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " GiB";
}

}  // namespace

CacheFolder::CacheFolder(std::string path, uint64_t limit_bytes, SpaceOf space_of)
    : path_(std::move(path)),
      limit_bytes_(limit_bytes),
      space_of_(space_of ? std::move(space_of) : SpaceOf(space_where)),
      begin_(fs::file_time_type::clock::now()) {}

bool CacheFolder::make_room(uint64_t bytes) {
  if (off_ || bytes > limit_bytes_) return false;
  const std::lock_guard lock(mutex_);
  if (!measured_) {
    evict(0);
    measured_ = true;
  }
  if (lack(bytes).none()) return true;
  const auto now = std::chrono::steady_clock::now();
  if (now < full_until_) return false;
  evict(bytes);
  const Lack left = lack(bytes);
  if (left.none()) return true;
  full_until_ = now + kLookAgainAfter;
  if (left.on_disk != 0 && problem_.empty()) {
    const fs::space_info space = space_of_(path_);
    problem_ =
        "the disk has only " + gibibytes(space.available) + " of " + gibibytes(space.capacity) +
        " free" +
        (limit_bytes_ == kNoLimit ? ", of which some stay free where cache_bytes is not given"
                                  : "") +
        ": " + path_;
    off_ = true;
  }
  return false;
}

/// What keeps so much more from being kept.
CacheFolder::Lack CacheFolder::lack(uint64_t bytes) const {
  Lack lack;
  const uint64_t total = total_bytes_;
  if (total > limit_bytes_ || bytes > limit_bytes_ - total) {
    lack.in_limit = total + bytes - limit_bytes_;
  }
  const fs::space_info space = space_of_(path_);
  const uint64_t spare = limit_bytes_ != kNoLimit
                             ? 0
                             : std::min<uint64_t>(space.capacity / kFreeShare, kMostFreeBytes);
  if (space.capacity != static_cast<std::uintmax_t>(-1) && space.available <= bytes + spare) {
    lack.on_disk = bytes + spare - space.available + 1;
  }
  return lack;
}

/// Measures what is there, since others write and remove, too; then removes what was used longest
/// ago until so much fits, and a little more. For 0 it only measures.
void CacheFolder::evict(uint64_t bytes) {
  std::vector<CachedFile> files;
  uint64_t total = 0;
  const auto now = fs::file_time_type::clock::now();
  for_each_file(path_, [&](CachedFile&& file) {
    if (file.path.extension() == ".tmp") {
      if (now - file.used > kAbandonedAfter) remove(file.path);
      return;
    }
    total += file.bytes;
    files.push_back(std::move(file));
  });
  total_bytes_ = total;
  if (bytes == 0) return;
  const Lack lacking = lack(bytes + std::min(limit_bytes_, total) / kRoomShare);
  const uint64_t goal = std::max(lacking.in_limit, lacking.on_disk);
  std::sort(files.begin(), files.end(),
            [](const CachedFile& a, const CachedFile& b) { return a.used < b.used; });
  uint64_t gone = 0;
  for (const CachedFile& file : files) {
    if (gone >= goal || file.used >= begin_) break;
    remove(file.path);
    gone += file.bytes;
  }
  total_bytes_ = total - gone;
}

void CacheFolder::touch(const std::string& file) noexcept {
  static_cast<void>(::utimensat(AT_FDCWD, file.c_str(), nullptr, 0));
}

void CacheFolder::remove(const std::string& file) noexcept {
  ::unlink(file.c_str());
  try {
    io::forget_descriptor(io::normalize(file));
  } catch (...) {
    // Then its descriptor is closed when others push it out.
  }
  // The folder of its unit goes with its last file.
  const fs::path unit = fs::path(file).parent_path();
  ::rmdir(unit.c_str());
}

void CacheFolder::turn_off(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (problem_.empty()) problem_ = reason;
  off_ = true;
}

std::string CacheFolder::problem() const {
  const std::lock_guard lock(mutex_);
  return problem_;
}

}  // namespace penstock::format::pack
