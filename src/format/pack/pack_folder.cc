#include "format/pack/pack_folder.h"

#include <fcntl.h>
#include <penstock/error.h>
#include <sys/file.h>
#include <sys/stat.h>
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
constexpr const char* kTemporary = ".tmp";  // of RowFileWriter too
constexpr uint64_t kCopyBytes = uint64_t{8} << 20;

[[noreturn]] void fail(const char* action, const std::string& path, int error) {
  const std::string message =
      std::string("cannot ") + action + ": " + std::generic_category().message(error) + ": " + path;
  if (error == ENOSPC || error == EDQUOT || error == EFBIG || error == EMFILE)
    throw ResourceExhausted(message);
  throw IoError(message);
}

void sync_path(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;  // of a file system that does not let folders be opened
  ::fsync(fd);
  ::close(fd);
}

std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// A file that is written under another name first.
class NewFile {
 public:
  explicit NewFile(const std::string& path) : path_(path), temporary_(path + kTemporary) {
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

bool is_same_file(int fd, const std::string& path) {
  struct stat opened, named;
  return ::fstat(fd, &opened) == 0 && ::stat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

// What writers that were killed have left. Only while nobody writes there.
void remove_half_written(const std::string& folder) {
  std::vector<fs::path> left;
  std::error_code error;
  const fs::recursive_directory_iterator end;
  for (fs::recursive_directory_iterator at(folder, error); !error && at != end;
       at.increment(error)) {
    const bool is_file = at->symlink_status(error).type() == fs::file_type::regular;
    if (is_file && at->path().extension() == kTemporary) left.push_back(at->path());
  }
  for (const fs::path& path : left) fs::remove(path, error);  // one that stays does no harm
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
  constexpr int kMostTries = 100;  // a file system may give an open file another number each time
  for (int tries = 0; tries < kMostTries; ++tries) {
    look(key, overwrite);
    if (complete_ || lock(key)) return;
  }
  throw IoError("the folder changes all the time: " + partial_);
}

void PackFolder::look(const std::string& key, bool overwrite) {
  const io::FileStore files;
  complete_ = replaces_ = false;
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
}

bool PackFolder::lock(const std::string& key) {
  const std::string marker = io::join(partial_, kMarkerName);
  if (io::FileStore().is_directory(partial_) && !io::FileStore().exists(marker) &&
      !io::FileStore().list(partial_).empty()) {
    throw InvalidArgument("there is something that is no pack begun: " + partial_);
  }
  make_folder(partial_);
  lock_ = ::open(marker.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666);
  if (lock_ < 0) fail("write", marker, errno);
  const bool is_alone = ::flock(lock_, LOCK_EX | LOCK_NB) == 0;
  if (!is_alone && errno == EWOULDBLOCK) {
    ::close(std::exchange(lock_, -1));
    throw InvalidArgument("another process is packing there: " + partial_);
  }
  if (!is_same_file(lock_, marker)) {  // another process became done meanwhile
    ::close(std::exchange(lock_, -1));
    return false;
  }
  if (text_of(marker) == key) {
    if (is_alone) remove_half_written(partial_);
    return true;
  }
  // Of other content, or of nothing: only the marker stays.
  for (const auto& entry : io::FileStore().list(partial_)) {
    if (entry.name != kMarkerName) fs::remove_all(io::join(partial_, entry.name));
  }
  if (::ftruncate(lock_, 0) != 0 ||
      ::pwrite(lock_, key.data(), key.size(), 0) != static_cast<ssize_t>(key.size())) {
    fail("write", marker, errno);
  }
  return true;
}

void PackFolder::finish() {
  sync_path(partial_);
  const std::string old = destination_ + ".replaced-" + std::to_string(::getpid());
  if (replaces_ && ::rename(destination_.c_str(), old.c_str()) != 0) {
    fail("replace", destination_, errno);
  }
  if (::rename(partial_.c_str(), destination_.c_str()) != 0) {
    const int error = errno;
    if (replaces_) static_cast<void>(::rename(old.c_str(), destination_.c_str()));
    fail("name", destination_, error);
  }
  ::unlink(io::join(destination_, kMarkerName).c_str());
  const auto parent = fs::path(destination_).parent_path();
  sync_path(parent.empty() ? "." : parent.string());
  std::error_code ignored;
  if (replaces_) fs::remove_all(old, ignored);
  complete_ = true;
}

PackFolder::~PackFolder() {
  if (lock_ >= 0) ::close(lock_);
}

}  // namespace penstock::format::pack
