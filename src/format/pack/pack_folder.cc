#include "format/pack/pack_folder.h"

#include <fcntl.h>
#include <penstock/error.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "base/concat.h"
#include "format/pack/pack_contents.h"
#include "format/pack/written_files.h"
#include "io/file_store.h"

namespace penstock::format::pack {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMarkerName = "pack.partial";
constexpr const char* kPartial = ".partial";
constexpr const char* kReplaced = ".replaced-";
constexpr const char* kTemporary = ".tmp";  // of RowFileWriter too
constexpr const char* kRowFile = ".rows.";

void sync_path(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;  // of a file system that does not let folders be opened
  ::fsync(fd);
  ::close(fd);
}

/// Whether an open file has exactly the bytes `wanted`.
bool holds(int fd, const std::string& wanted) {
  std::string text(wanted.size() + 1, '\0');
  const ssize_t got = ::pread(fd, text.data(), text.size(), 0);
  return got == static_cast<ssize_t>(wanted.size()) && text.starts_with(wanted);
}

bool has(const std::vector<io::DirectoryEntry>& entries, std::string_view name) {
  return std::any_of(entries.begin(), entries.end(),
                     [&](const io::DirectoryEntry& entry) { return entry.name == name; });
}

enum class Found { kNothing, kOurs, kOther };

/// Whether a packer made the folder: it then contains `mark`. Packers may rename or remove their
/// folder while it is listed, so a folder without a mark is listed twice.
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

bool is_there(const std::string& path) {
  struct stat place;
  return ::lstat(path.c_str(), &place) == 0;
}

bool is_folder(const std::string& path) {
  struct stat place;
  return ::lstat(path.c_str(), &place) == 0 && S_ISDIR(place.st_mode);
}

/// Returns a free name beside the pack.
std::string free_name(const std::string& destination, const char* what) {
  const std::string name = destination + what + std::to_string(::getpid());
  if (!is_there(name)) return name;
  for (int number = 1;; ++number) {
    if (!is_there(name + "-" + std::to_string(number))) return name + "-" + std::to_string(number);
  }
}

void give_name(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) fail_to("name", to, errno);
}

/// Swaps two names atomically. Returns false if the file system or the kernel cannot.
bool exchange_names(const std::string& one, const std::string& other) {
  constexpr unsigned kExchange = 2;  // RENAME_EXCHANGE, which older headers lack
  return ::syscall(SYS_renameat2, AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), kExchange) == 0;
}

// Removes files that killed writers left incomplete, or row files alone. A part that still writes
// one then fails to rename it.
void remove_half_written(const std::string& folder, std::string_view having = {}) {
  std::vector<fs::path> left;
  std::error_code error;
  const fs::recursive_directory_iterator end;
  for (fs::recursive_directory_iterator at(folder, error); !error && at != end;
       at.increment(error)) {
    const bool is_file = at->symlink_status(error).type() == fs::file_type::regular;
    if (is_file && at->path().extension() == kTemporary &&
        at->path().filename().string().find(having) != std::string::npos) {
      left.push_back(at->path());
    }
  }
  for (const fs::path& path : left) fs::remove(path, error);  // a remaining one does no harm
}

/// Whether the folder has nothing but parts of a pack.
bool looks_like_pack(const std::string& folder) {
  const auto entries = io::FileStore().list(folder);
  return std::all_of(entries.begin(), entries.end(), [](const io::DirectoryEntry& entry) {
    return entry.name == kContentsName || entry.name == kMarkerName ||
           (entry.is_directory && (entry.name == "obs" || entry.name == "ms"));
  });
}

/// Key of the existing pack; nothing if it may be overwritten and cannot be read.
std::optional<std::string> key_there(const std::string& folder, bool overwrite) {
  try {
    return PackContents::load(io::FileStore(), folder).key;
  } catch (const Error& error) {
    if (overwrite && looks_like_pack(folder)) return std::nullopt;
    throw InvalidArgument(
        std::string("there is something that cannot be read as a pack (overwrite it if it is one, "
                    "or give another folder): ") +
        error.what());
  }
}

/// Whether it may be replaced and removed: a readable pack, or nothing but parts of one.
bool holds_pack(const std::string& folder) noexcept {
  try {
    if (what_is_there(folder, kContentsName) != Found::kOurs) return false;
    static_cast<void>(key_there(folder, true));
    return true;
  } catch (...) {
    return false;
  }
}

std::string folder_of(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  return folder.empty() ? "." : folder.string();
}

/// Checks the length of `destination` with its longest temporary ending.
void check_name_length(const std::string& destination, bool replaces) {
  const std::string ending =
      replaces ? kReplaced + std::to_string(::getpid()) + "-99" : std::string(kPartial);
  const size_t length = fs::path(destination).filename().string().size() + ending.size();
  const long most = ::pathconf(folder_of(destination).c_str(), _PC_NAME_MAX);
  if (most <= 0 || length <= static_cast<size_t>(most)) return;
  throw InvalidArgument(
      concat("the destination's name is too long, as it needs room for the ending ", ending,
             ": make it shorter by ", length - static_cast<size_t>(most), " bytes, ", destination));
}

/// In a sticky folder only owners may rename files.
void check_owner(const std::string& path, const std::string& folder) {
  struct stat place, parent;
  const uid_t user = ::geteuid();
  if (::lstat(path.c_str(), &place) != 0 || ::stat(folder.c_str(), &parent) != 0) return;
  if ((parent.st_mode & S_ISVTX) == 0 || user == 0 || user == place.st_uid ||
      user == parent.st_uid) {
    return;
  }
  throw InvalidArgument(
      "it belongs to another user, and in its folder only owners may replace what is theirs (the "
      "sticky bit); give another destination: " +
      path);
}

}  // namespace

PackFolder::PackFolder(std::string destination, const std::string& key, bool overwrite,
                       FolderUse use)
    : destination_(io::normalize(destination)), partial_(destination_ + kPartial), use_(use) {
  if (use_ == FolderUse::kJoined) {
    if (join(key)) return;
    look(key, overwrite);
    if (complete_) return;
    throw IoError("the folder that this part of the pack belongs in is gone: " + partial_);
  }
  constexpr int kMostTries = 100;  // some file systems change an open file's inode
  for (int tries = 0; tries < kMostTries; ++tries) {
    look(key, overwrite);
    if (complete_) return;
    if (!(use_ == FolderUse::kAlone ? lock(key) : lock_as_part(key))) continue;
    try {
      look(key, overwrite);  // another process may have finished before the lock
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
    const auto there = key_there(destination_, overwrite);
    // A part that comes late has nothing to overwrite.
    complete_ = (!overwrite || use_ != FolderUse::kAlone) && there == key;
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

/// Throws if the folder could not be renamed to the pack in the end.
void PackFolder::check_place() const {
  const std::string folder = folder_of(destination_);
  check_name_length(destination_, replaces_);
  if (is_there(folder)) {
    if (::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) != 0) {
      fail_to("make a pack in the folder of the destination", folder, errno);
    }
    check_owner(destination_, folder);
    check_owner(partial_, folder);
  }
  struct stat place, parent;
  if (::lstat(destination_.c_str(), &place) != 0) return;  // the name is free
  if (S_ISLNK(place.st_mode) && !replaces_) {
    throw InvalidArgument("the destination is a link; give the folder that it should lead to: " +
                          destination_);
  }
  if (::stat(folder.c_str(), &parent) == 0 && place.st_dev != parent.st_dev) {
    throw InvalidArgument(
        "the destination is where a file system is mounted; give a folder in it: " + destination_);
  }
}

/// Opens and locks the marker, which is made if it is not there.
PackFolder::Locked PackFolder::lock_marker(int how) {
  const std::string marker = io::join(partial_, kMarkerName);
  if (what_is_there(partial_, kMarkerName) == Found::kOther) {
    throw InvalidArgument("there is something that is no pack begun: " + partial_);
  }
  make_folder(partial_);
  lock_ = ::open(marker.c_str(), O_CREAT | O_RDWR | O_NONBLOCK | O_CLOEXEC, 0666);
  if (lock_ < 0 && errno == ENOENT) return Locked::kGone;
  if (lock_ < 0) fail_to("write", marker, errno);
  const bool locked = ::flock(lock_, how | LOCK_NB) == 0;
  if (!locked && errno == EWOULDBLOCK) {
    ::close(std::exchange(lock_, -1));
    throw InvalidArgument("another process is packing there: " + partial_);
  }
  if (!is_same_file(lock_, marker)) {  // another process finished meanwhile
    ::close(std::exchange(lock_, -1));
    return Locked::kGone;
  }
  return locked ? Locked::kYes : Locked::kNotOffered;
}

bool PackFolder::lock(const std::string& key) {
  const Locked locked = lock_marker(LOCK_EX);
  if (locked == Locked::kGone) return false;
  if (holds(lock_, key)) {
    if (locked == Locked::kYes) remove_half_written(partial_);
    return true;
  }
  // Another key: parts that were given up may still write there, so the folder goes with its name.
  if (!holds(lock_, "")) {
    const std::string old = free_name(destination_, kReplaced);
    if (::rename(partial_.c_str(), old.c_str()) == 0) {
      unlock();
      std::error_code ignored;
      fs::remove_all(old, ignored);
      return false;
    }
  }
  // No key, or the name is too long: remove everything except the marker.
  for (const auto& entry : io::FileStore().list(partial_)) {
    if (entry.name != kMarkerName) fs::remove_all(io::join(partial_, entry.name));
  }
  if (::ftruncate(lock_, 0) != 0) fail_to("write", io::join(partial_, kMarkerName), errno);
  write_key(key);
  return true;
}

void PackFolder::write_key(const std::string& key) const {
  if (::pwrite(lock_, key.data(), key.size(), 0) == static_cast<ssize_t>(key.size())) return;
  fail_to("write", io::join(partial_, kMarkerName), errno);
}

bool PackFolder::lock_as_part(const std::string& key) {
  if (lock_marker(LOCK_SH) == Locked::kGone) return false;
  if (holds(lock_, "")) write_key(key);  // the first part; others write the same
  check_key(key);
  return true;
}

bool PackFolder::join(const std::string& key) {
  const std::string marker = io::join(partial_, kMarkerName);
  lock_ = ::open(marker.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (lock_ < 0 && errno == ENOENT) return false;
  if (lock_ < 0) fail_to("read", marker, errno);
  check_key(key);
  return true;
}

void PackFolder::check_key(const std::string& key) {
  if (holds(lock_, key)) return;
  unlock();
  throw InvalidArgument(
      "a pack of other content was begun there, or of other cells or layers, or the source was "
      "written to since (remove it to begin again): " +
      partial_);
}

void PackFolder::check_still_there() const {
  const std::string marker = io::join(partial_, kMarkerName);
  if (is_same_file(lock_, marker)) return;
  throw IoError("the folder that this part of the pack belongs in is gone: " + partial_);
}

void PackFolder::make_below(const std::string& path) const {
  for (size_t end = partial_.size(); end != std::string::npos;) {
    end = path.find('/', end + 1);
    const std::string folder = path.substr(0, end);
    if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) {
      fail_to("make the folder", folder, errno);
    }
  }
}

/// Also of forked children, which have the lock, too.
void PackFolder::unlock() noexcept {
  if (lock_ < 0) return;
  ::flock(lock_, LOCK_UN);
  ::close(std::exchange(lock_, -1));
}

/// Abandons the folder: removes what lock() made and keeps files of an earlier attempt.
void PackFolder::leave() noexcept {
  try {
    const std::string marker = io::join(partial_, kMarkerName);
    if (is_same_file(lock_, marker) && io::FileStore().list(partial_).size() == 1) {
      ::unlink(marker.c_str());
      ::rmdir(partial_.c_str());
    }
  } catch (...) {
    // The marker then stays.
  }
  unlock();
}

void PackFolder::finish() {
  sync_path(partial_);
  const std::string old = replaces_ && is_there(destination_) ? replace() : std::string();
  if (old.empty()) give_name(partial_, destination_);
  remove_half_written(destination_, kRowFile);  // not a file of a table that has such a name
  ::unlink(io::join(destination_, kMarkerName).c_str());
  unlock();  // sshfs keeps an open file under another name
  sync_path(folder_of(destination_));
  // Check once more: something else may have taken the name just before it was moved.
  std::error_code ignored;
  if (!old.empty() && holds_pack(old)) fs::remove_all(old, ignored);
  complete_ = true;
}

/// Returns where the old pack is now. If the file system can swap names, a pack exists all the
/// time. Another packer may start at any moment and must not take the old pack for an unfinished
/// one, so the new pack leaves its temporary name first.
std::string PackFolder::replace() {
  if (!holds_pack(destination_)) {
    throw InvalidArgument("something that is no pack came to the destination meanwhile: " +
                          destination_);
  }
  if (is_folder(destination_)) {
    const std::string beside = free_name(destination_, ".new-");
    give_name(partial_, beside);
    if (exchange_names(beside, destination_)) {
      const std::string old = free_name(destination_, kReplaced);
      return ::rename(beside.c_str(), old.c_str()) == 0 ? old : beside;
    }
    if (::rename(beside.c_str(), partial_.c_str()) != 0)
      fail_to("name (the pack is whole)", beside, errno);
  }
  const std::string old = free_name(destination_, kReplaced);
  give_name(destination_, old);
  if (::rename(partial_.c_str(), destination_.c_str()) != 0) {
    const int error = errno;
    static_cast<void>(::rename(old.c_str(), destination_.c_str()));
    fail_to("name", destination_, error);
  }
  return old;
}

PackFolder::~PackFolder() {
  if (lock_ < 0) return;
  if (use_ == FolderUse::kAlone && !complete_) {
    leave();
  } else if (use_ == FolderUse::kJoined) {
    ::close(lock_);  // it has none
  } else {
    unlock();
  }
}

}  // namespace penstock::format::pack
