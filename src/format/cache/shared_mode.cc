#include "format/cache/shared_mode.h"

#include <fcntl.h>
#include <penstock/error.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "format/pack/written_files.h"

namespace penstock::format::pack {
namespace {

constexpr mode_t kFolderBits = 03777;  // with set-group-ID and the sticky bit
constexpr mode_t kFileBits = 0666;
constexpr mode_t kOwnersBits = 0644;
constexpr int kMostTries = 100;

[[noreturn]] void fail(const std::string& path, int error) {
  throw IoError("cannot make the folder: " + std::generic_category().message(error) + ": " + path);
}

/// False for places such as /tmp, whose files are not meant to be shared: there the umask applies.
bool shares(const struct stat& root) noexcept {
  constexpr mode_t kEverybodys = S_ISVTX | S_IWOTH;
  return (root.st_mode & kEverybodys) != kEverybodys || root.st_uid == ::geteuid();
}

/// Sets mode and group of a file or folder that this user has just made. It is checked by its open
/// descriptor, because the path may lead elsewhere by now. Does nothing on file systems without
/// them.
void share(const std::string& path, mode_t kind, const struct stat& like, mode_t mode) noexcept {
  const int made = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (made < 0) return;
  struct stat found {};
  if (::fstat(made, &found) == 0 && (found.st_mode & S_IFMT) == kind &&
      found.st_uid == ::geteuid() && (kind == S_IFDIR || found.st_nlink == 1)) {
    static_cast<void>(::fchown(made, static_cast<uid_t>(-1), like.st_gid));
    static_cast<void>(::fchmod(made, mode));
  }
  ::close(made);
}

/// Makes a folder under another name first, because others may use it as soon as it exists. Returns
/// 0 or an error's number: ENOENT if its parent was removed, or replaced while it was empty.
int make_one(const struct stat& like, const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) == 0) return 0;
  if (!shares(like)) {
    return ::mkdir(path.c_str(), 0777) == 0 || errno == EEXIST ? 0 : errno;
  }
  std::string made = path + ".new-XXXXXX";
  if (::mkdtemp(made.data()) == nullptr) return errno;
  share(made, S_IFDIR, like, like.st_mode & kFolderBits);
  if (::rename(made.c_str(), path.c_str()) == 0) return 0;  // also replaces an empty folder
  const int error = errno;
  ::rmdir(made.c_str());
  return ::stat(path.c_str(), &found) == 0 ? 0 : error;  // another process may have made it
}

}  // namespace

void make_shared_folder(const std::string& root, const std::string& folder) {
  make_folder(root);
  struct stat like {};
  if (::stat(root.c_str(), &like) != 0) fail(folder, errno);
  int tries = 1;
  for (size_t at = root.size(); at < folder.size();) {
    at = std::min(folder.find('/', at + 1), folder.size());
    const std::string path = folder.substr(0, at);
    const int error = make_one(like, path);
    if (error == 0) continue;
    // Another thread makes the same folders, or removes empty ones: begin again.
    if (error != ENOENT || ++tries > kMostTries) fail(path, error);
    at = root.size();
  }
}

void share_file(const std::string& root, const std::string& file) noexcept {
  struct stat like {};
  if (::stat(root.c_str(), &like) != 0 || !shares(like)) return;
  const mode_t bits = (like.st_mode & S_ISVTX) != 0 ? kOwnersBits : kFileBits;
  share(file, S_IFREG, like, like.st_mode & bits);
}

}  // namespace penstock::format::pack
