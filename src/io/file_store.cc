#include "io/file_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <penstock/error.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <system_error>

namespace penstock::io {
namespace {

[[noreturn]] void fail(const char* action, const std::string& path, int error) {
  const std::string message =
      std::string("cannot ") + action + ": " + std::generic_category().message(error) + ": " + path;
  if (error == ENOENT || error == ENOTDIR) throw NotFound(message);
  if (error == EMFILE || error == ENFILE || error == ENOMEM) throw ResourceExhausted(message);
  throw IoError(message);
}

class Descriptor {
 public:
  explicit Descriptor(const std::string& path) {
    do {
      fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    } while (fd_ < 0 && errno == EINTR);
    if (fd_ < 0) fail("open", path, errno);
  }
  ~Descriptor() { ::close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const noexcept { return fd_; }

 private:
  int fd_ = -1;
};

// Nothing there is an answer here, not an error.
bool try_stat(const std::string& path, struct stat& info) {
  if (::stat(path.c_str(), &info) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  fail("look at", path, errno);
}

}  // namespace

std::vector<DirectoryEntry> FileStore::list(const std::string& directory) const {
  const std::string path = normalize(directory);
  std::vector<DirectoryEntry> entries;
  const auto close = [](DIR* open_directory) { ::closedir(open_directory); };
  const std::unique_ptr<DIR, decltype(close)> stream(::opendir(path.c_str()), close);
  if (!stream) {
    if (errno == ENOENT || errno == ENOTDIR) return entries;
    fail("list", path, errno);
  }
  while (true) {
    errno = 0;
    const dirent* found = ::readdir(stream.get());
    if (found == nullptr) {
      if (errno != 0) fail("list", path, errno);
      break;
    }
    const std::string_view name = found->d_name;
    if (name == "." || name == "..") continue;
    struct stat info;
    // An entry that vanished since readdir, or a dangling link, is not there.
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
  if (!try_stat(file, info)) fail("open", file, ENOENT);
  if (S_ISDIR(info.st_mode)) fail("read", file, EISDIR);
  return static_cast<uint64_t>(info.st_size);
}

void FileStore::read(const std::string& path, uint64_t offset, std::span<std::byte> out) const {
  const std::string file = normalize(path);
  const Descriptor descriptor(file);
  size_t done = 0;
  while (done < out.size()) {
    const uint64_t position = offset + done;
    if (position > static_cast<uint64_t>(INT64_MAX)) {
      throw CorruptData("offset is out of range: " + std::to_string(position) + ", in " + file);
    }
    const ssize_t count = ::pread(descriptor.get(), out.data() + done, out.size() - done,
                                  static_cast<off_t>(position));
    if (count < 0) {
      if (errno == EINTR) continue;
      fail("read", file, errno);
    }
    if (count == 0) {
      throw CorruptData("truncated: wanted " + std::to_string(out.size()) + " bytes at offset " +
                        std::to_string(offset) + ", ends at " + std::to_string(position) + ", in " +
                        file);
    }
    done += static_cast<size_t>(count);
  }
}

StorePtr file_store() {
  static const StorePtr store = std::make_shared<FileStore>();
  return store;
}

}  // namespace penstock::io
