#include "format/pack/pack_folder.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <penstock/error.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include "format/pack/pack_contents.h"
#include "io/file_store.h"

namespace penstock::format::pack {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMarkerName = "pack.partial";
constexpr uint64_t kCopyBytes = uint64_t{8} << 20;

[[noreturn]] void fail(const char* action, const std::string& path, int error) {
  const std::string message =
      std::string("cannot ") + action + ": " + std::generic_category().message(error) + ": " + path;
  if (error == ENOSPC || error == EDQUOT || error == EFBIG || error == EMFILE)
    throw ResourceExhausted(message);
  if (error == ENOENT) throw NotFound(message);
  throw IoError(message);
}

void sync_path(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;  // of a file system that does not let folders be opened
  ::fsync(fd);
  ::close(fd);
}

/// What writers that were killed have left below a folder.
void remove_temporary_files(const std::string& folder) {
  std::vector<fs::path> left;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".tmp") left.push_back(entry.path());
  }
  for (const fs::path& path : left) fs::remove(path);
}

/// All but the marker, which says until the end whose folder it is.
void remove_contents(const std::string& folder) {
  for (const auto& entry : io::FileStore().list(folder)) {
    if (entry.name != kMarkerName) fs::remove_all(io::join(folder, entry.name));
  }
}

/// Whose marker is locked; what cannot be removed stays for the next.
void remove_folder(const std::string& folder) {
  try {
    remove_contents(folder);
  } catch (const std::exception&) {
    return;
  }
  ::unlink(io::join(folder, kMarkerName).c_str());
  ::rmdir(folder.c_str());
}

/// The open and locked marker of a folder, or -1 where another process has the lock.
int lock_marker(const std::string& folder) {
  const std::string marker = io::join(folder, kMarkerName);
  const int fd = ::open(marker.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666);
  if (fd < 0) fail("write", marker, errno);
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return fd;
  ::close(fd);
  return -1;
}

std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// A file that is written under another name first.
class NewFile {
 public:
  explicit NewFile(const std::string& path) : path_(path), temporary_(path + ".tmp") {
    fd_ = ::open(temporary_.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0666);
    if (fd_ < 0) fail("write", temporary_, errno);
  }
  ~NewFile() {
    if (fd_ < 0) return;
    ::close(fd_);
    ::unlink(temporary_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(const char* bytes, size_t count) {
    while (count != 0) {
      const ssize_t done = ::write(fd_, bytes, count);
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) fail("write", temporary_, errno);
      bytes += done;
      count -= static_cast<size_t>(done);
    }
  }
  void finish() {
    if (::fsync(fd_) != 0) fail("write", temporary_, errno);
    if (::close(std::exchange(fd_, -1)) != 0 || ::rename(temporary_.c_str(), path_.c_str()) != 0) {
      const int error = errno;
      ::unlink(temporary_.c_str());
      fail("write", path_, error);
    }
  }

 private:
  std::string path_;
  std::string temporary_;
  int fd_ = -1;
};

void copy_file(const io::Store& store, const std::string& from, uint64_t size,
               const std::string& to) {
  std::error_code error;
  if (fs::file_size(to, error) == size && !error) return;
  NewFile file(to);
  Buffer piece;
  for (uint64_t done = 0; done < size; done += piece.size()) {
    piece.resize_discard(std::min(kCopyBytes, size - done));
    store.read(from, done, piece.span());
    file.write(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  file.finish();
}

}  // namespace

void make_folder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) fail("make the folder", path, error.value());
}

void write_file(const std::string& path, std::string_view bytes) {
  NewFile file(path);
  file.write(bytes.data(), bytes.size());
  file.finish();
}

void copy_tree(const io::Store& store, const std::string& from, const std::string& to) {
  make_folder(to);
  auto entries = store.list(from);
  std::stable_partition(entries.begin(), entries.end(),
                        [](const io::DirectoryEntry& entry) { return entry.name == "__commits"; });
  for (const io::DirectoryEntry& entry : entries) {
    const std::string source = io::join(from, entry.name);
    const std::string target = io::join(to, entry.name);
    if (entry.is_directory) {
      copy_tree(store, source, target);
    } else {
      copy_file(store, source, entry.size_bytes, target);
    }
  }
}

PackFolder::PackFolder(std::string destination, const std::string& key, bool overwrite)
    : destination_(io::normalize(destination)), partial_(destination_ + ".partial") {
  const io::FileStore files;
  if (files.exists(destination_)) {
    throw InvalidArgument("there is a file where the pack should be: " + destination_);
  }
  if (files.exists(io::join(destination_, kContentsName))) {
    const auto there = PackContents::load(files, destination_);
    complete_ = there.key == key;
    replaces_ = !complete_;
    if (replaces_ && !overwrite) {
      throw InvalidArgument(
          "there is a pack of other content, or other cells or layers of it (overwrite it, or give "
          "another folder): " +
          destination_);
    }
  } else if (files.is_directory(destination_) && !files.list(destination_).empty()) {
    throw InvalidArgument("there is something that is no pack, which is not overwritten: " +
                          destination_);
  }
  complete_ ? remove_replaced() : lock(key);
}

void PackFolder::lock(const std::string& key) {
  const std::string marker = io::join(partial_, kMarkerName);
  if (io::FileStore().is_directory(partial_) && !io::FileStore().exists(marker) &&
      !io::FileStore().list(partial_).empty()) {
    throw InvalidArgument("there is something that is no pack begun: " + partial_);
  }
  make_folder(partial_);
  lock_ = lock_marker(partial_);
  if (lock_ < 0) throw InvalidArgument("another process is packing there: " + partial_);
  if (text_of(marker) == key) return remove_temporary_files(partial_);
  remove_contents(partial_);  // of other content, or a pack that was replaced
  if (::ftruncate(lock_, 0) != 0 ||
      ::pwrite(lock_, key.data(), key.size(), 0) != static_cast<ssize_t>(key.size())) {
    fail("write", marker, errno);
  }
}

void PackFolder::finish() {
  remove_temporary_files(partial_);
  sync_path(partial_);
  if (replaces_) {
    replace();
  } else if (::rename(partial_.c_str(), destination_.c_str()) != 0) {
    fail("name", destination_, errno);
  }
  ::unlink(io::join(destination_, kMarkerName).c_str());
  const auto parent = fs::path(destination_).parent_path();
  sync_path(parent.empty() ? "." : parent.string());
  complete_ = true;
}

/// The two folders change names at once where the file system can, so that there is a whole pack at
/// any moment. What is left of the old one is marked then, and removed by whoever comes next.
void PackFolder::replace() {
  const int old_lock = lock_marker(destination_);
  if (old_lock < 0) throw InvalidArgument("another process is replacing it: " + destination_);
  const bool exchanged = ::ftruncate(old_lock, 0) == 0 &&
                         ::syscall(SYS_renameat2, AT_FDCWD, partial_.c_str(), AT_FDCWD,
                                   destination_.c_str(), RENAME_EXCHANGE) == 0;
  if (exchanged) remove_folder(partial_);
  ::close(old_lock);
  if (exchanged) return;
  const std::string old = destination_ + ".replaced-" + std::to_string(::getpid());
  if (::rename(destination_.c_str(), old.c_str()) != 0) fail("replace", destination_, errno);
  if (::rename(partial_.c_str(), destination_.c_str()) != 0) {
    const int error = errno;
    static_cast<void>(::rename(old.c_str(), destination_.c_str()));
    fail("name", destination_, error);
  }
  std::error_code ignored;
  fs::remove_all(old, ignored);
}

/// The pack is whole; one that it has replaced may be in part there still, under a marker that says
/// nothing. What was begun for other content has the key in its marker and stays.
void PackFolder::remove_replaced() {
  const std::string marker = io::join(partial_, kMarkerName);
  if (!io::FileStore().exists(marker)) {
    ::rmdir(partial_.c_str());  // nothing, or what is not empty
    return;
  }
  if (!text_of(marker).empty()) return;
  try {
    const int old_lock = lock_marker(partial_);
    if (old_lock < 0) return;
    if (text_of(marker).empty()) remove_folder(partial_);
    ::close(old_lock);
  } catch (const Error&) {
    // Of somebody else, where this user may not write.
  }
}

PackFolder::~PackFolder() {
  if (lock_ >= 0) ::close(lock_);
}

}  // namespace penstock::format::pack
