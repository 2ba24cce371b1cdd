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

// No way out of the folder that is copied to; of an object store's keys all may be said.
bool plain_file_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

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

bool has(const std::vector<io::DirectoryEntry>& entries, std::string_view name) {
  return std::any_of(entries.begin(), entries.end(),
                     [&](const io::DirectoryEntry& entry) { return entry.name == name; });
}

enum class Found { kNothing, kOurs, kOther };

/// Whether a folder is of a packer, which has the mark then. Others may give it its name or take it
/// away while it is listed; what is of nobody is still there at the next look.
Found what_is_there(const std::string& folder, std::string_view mark) {
  for (int looks = 0; looks < 2; ++looks) {
    const auto entries = io::FileStore().list(folder);
    if (entries.empty()) return Found::kNothing;
    if (has(entries, mark)) return Found::kOurs;
  }
  return Found::kOther;
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
    if (!plain_file_name(entry.name)) {
      throw CorruptData("a name that no file can have: '" + entry.name + "', below " + from);
    }
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
    if (complete_) return;
    if (!lock(key)) continue;
    try {
      look(key, overwrite);  // another process may have become done before the lock
    } catch (...) {
      leave();
      throw;
    }
    if (complete_) leave();
    return;
  }
  throw IoError("the folder changes all the time: " + partial_);
}

void PackFolder::look(const std::string& key, bool overwrite) {
  const io::FileStore files;
  complete_ = replaces_ = false;
  if (files.exists(destination_)) {
    throw InvalidArgument("there is a file where the pack should be: " + destination_);
  }
  const Found found = what_is_there(destination_, kContentsName);
  if (found == Found::kOurs) {
    const auto there = key_there(overwrite);
    complete_ = !overwrite && there == key;
    replaces_ = !complete_;
    if (replaces_ && !overwrite) {
      throw InvalidArgument(
          "there is a pack of other content, or other cells or layers of it (overwrite it, or give "
          "another folder): " +
          destination_);
    }
  } else if (found == Found::kOther) {
    throw InvalidArgument("there is something that is no pack, which is not overwritten: " +
                          destination_);
  }
  if (!complete_) check_place();
}

/// Of the pack that has the name; nothing where it is to be replaced and cannot be read.
std::optional<std::string> PackFolder::key_there(bool overwrite) const {
  try {
    return PackContents::load(io::FileStore(), destination_).key;
  } catch (const Error& error) {
    if (overwrite && looks_like_pack()) return std::nullopt;
    throw InvalidArgument(
        std::string("there is something that cannot be read as a pack (overwrite it if it is one, "
                    "or give another folder): ") +
        error.what());
  }
}

/// Nothing in the folder is of others.
bool PackFolder::looks_like_pack() const {
  const auto entries = io::FileStore().list(destination_);
  return std::all_of(entries.begin(), entries.end(), [](const io::DirectoryEntry& entry) {
    return entry.name == kContentsName || entry.name == kMarkerName ||
           (entry.is_directory && (entry.name == "obs" || entry.name == "ms"));
  });
}

/// What would keep the folder from getting its name in the end.
void PackFolder::check_place() const {
  struct stat place, parent;
  if (::lstat(destination_.c_str(), &place) != 0) return;  // nothing is there
  if (S_ISLNK(place.st_mode) && !replaces_) {
    throw InvalidArgument("the destination is a link; give the folder that it should lead to: " +
                          destination_);
  }
  const std::string above = fs::path(destination_).parent_path().string();
  if (::stat(above.empty() ? "." : above.c_str(), &parent) == 0 && place.st_dev != parent.st_dev) {
    throw InvalidArgument(
        "the destination is where a file system is mounted; give a folder in it: " + destination_);
  }
}

bool PackFolder::lock(const std::string& key) {
  const std::string marker = io::join(partial_, kMarkerName);
  if (what_is_there(partial_, kMarkerName) == Found::kOther) {
    throw InvalidArgument("there is something that is no pack begun: " + partial_);
  }
  make_folder(partial_);
  lock_ = ::open(marker.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666);
  if (lock_ < 0 && errno == ENOENT) return false;  // the folder became the pack meanwhile
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

/// Nothing is packed here: what lock() made goes, what an attempt before left stays.
void PackFolder::leave() noexcept {
  try {
    if (io::FileStore().list(partial_).size() == 1) {
      ::unlink(io::join(partial_, kMarkerName).c_str());
      ::rmdir(partial_.c_str());
    }
  } catch (...) {
    // Then the marker stays.
  }
  ::close(std::exchange(lock_, -1));
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
