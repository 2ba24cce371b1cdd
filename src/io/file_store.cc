#include "io/file_store.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "base/concat.h"
#include "io/descriptor_cache.h"
#include "io/file_error.h"

namespace penstock::io {
namespace {

// Returns false if nothing is at `path`; throws on other errors.
bool try_stat(const std::string& path, struct stat& info) {
  if (::stat(path.c_str(), &info) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  throw_file_error("look at", path, errno);
}

}  // namespace

std::vector<DirectoryEntry> FileStore::list(const std::string& directory) const {
  const std::string path = normalize(directory);
  std::vector<DirectoryEntry> entries;
  const auto close = [](DIR* open_directory) { ::closedir(open_directory); };
  const std::unique_ptr<DIR, decltype(close)> stream(::opendir(path.c_str()), close);
  if (!stream) {
    if (errno == ENOENT || errno == ENOTDIR) return entries;
    throw_file_error("list", path, errno);
  }
  while (true) {
    errno = 0;
    const dirent* found = ::readdir(stream.get());
    if (found == nullptr) {
      if (errno != 0) throw_file_error("list", path, errno);
      break;
    }
    const std::string_view name = found->d_name;
    if (name == "." || name == "..") continue;
    struct stat info;
    // Skips entries that vanished since readdir, and dangling links.
    if (::fstatat(::dirfd(stream.get()), found->d_name, &info, 0) != 0) continue;
    const bool is_folder = S_ISDIR(info.st_mode);
    entries.push_back(
        {std::string(name), is_folder, is_folder ? 0 : static_cast<uint64_t>(info.st_size)});
  }
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return entries;
}

bool FileStore::exists(const std::string& path) const {
  struct stat info;
  return try_stat(normalize(path), info) && !S_ISDIR(info.st_mode);
}

bool FileStore::is_directory(const std::string& path) const {
  struct stat info;
  return try_stat(normalize(path), info) && S_ISDIR(info.st_mode);
}

uint64_t FileStore::size_bytes(const std::string& path) const {
  const std::string file = normalize(path);
  struct stat info;
  if (!try_stat(file, info)) throw_file_error("open", file, ENOENT);
  expect_regular(file, info.st_mode);
  return static_cast<uint64_t>(info.st_size);
}

std::string FileStore::version(const std::string& path) const {
  const std::string file = normalize(path);
  struct stat info;
  if (!try_stat(file, info)) throw_file_error("open", file, ENOENT);
  return concat(info.st_size, " ", info.st_mtim.tv_sec, ".", info.st_mtim.tv_nsec);
}

void FileStore::read(const std::string& path, uint64_t offset, std::span<std::byte> out) const {
  OpenFile(normalize(path)).read(offset, out);
}

StorePtr file_store() {
  static const StorePtr store = std::make_shared<FileStore>();
  return store;
}

}  // namespace penstock::io
