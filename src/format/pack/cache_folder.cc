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
/// What is made room for at once, of the limit.
constexpr uint64_t kRoomShare = 50;

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

/// Whether so much can be written and the disk keeps a twentieth of it free.
bool disk_has(const std::string& folder, uint64_t bytes) {
  std::error_code error;
  fs::path there = fs::path(folder);
  while (!there.empty() && !fs::exists(there, error) && there != there.parent_path()) {
    there = there.parent_path();
  }
  const fs::space_info space = fs::space(there.empty() ? fs::path(".") : there, error);
  return error || space.available > bytes + space.capacity / 20;
}

}  // namespace

CacheFolder::CacheFolder(std::string path, uint64_t limit_bytes)
    : path_(std::move(path)), limit_bytes_(limit_bytes), begin_(fs::file_time_type::clock::now()) {}

bool CacheFolder::make_room(uint64_t bytes) {
  if (off_ || bytes > limit_bytes_ || !disk_has(path_, bytes)) return false;
  const std::lock_guard lock(mutex_);
  if (!measured_) {
    total_bytes_ = measure(0);
    measured_ = true;
  }
  if (total_bytes_ + bytes <= limit_bytes_) return true;
  // Others may have removed some: what is really there counts.
  const auto now = std::chrono::steady_clock::now();
  if (now < full_until_) return false;
  total_bytes_ = measure(bytes + limit_bytes_ / kRoomShare);
  if (total_bytes_ + bytes <= limit_bytes_) return true;
  full_until_ = now + kLookAgainAfter;
  return false;
}

/// Bytes of all files, once those used longest ago are removed until `wanted_bytes` fit in.
uint64_t CacheFolder::measure(uint64_t wanted_bytes) {
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
  if (wanted_bytes == 0 || total + wanted_bytes <= limit_bytes_) return total;
  std::sort(files.begin(), files.end(),
            [](const CachedFile& a, const CachedFile& b) { return a.used < b.used; });
  for (const CachedFile& file : files) {
    if (total + wanted_bytes <= limit_bytes_ || file.used >= begin_) break;
    remove(file.path);
    total -= file.bytes;
  }
  return total;
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
