#include "format/pack/written_files.h"

#include <fcntl.h>
#include <penstock/error.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/hash/checksum.h"
#include "base/utf8.h"
#include "format/row_file/row_file.h"
#include "io/file_store.h"

namespace penstock::format::pack {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kCopyBytes = uint64_t{8} << 20;

/// A file that is written under a temporary name and then renamed.
class NewFile {
 public:
  explicit NewFile(const std::string& path) : path_(path), temporary_(temporary_name(path)) {
    fd_ = ::open(temporary_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
    if (fd_ < 0) fail_to("write", temporary_, errno);
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
      if (done < 0) fail_to("write", temporary_, errno);
      bytes += done;
      count -= static_cast<size_t>(done);
    }
  }
  void finish() {
    if (::fsync(fd_) != 0) fail_to("write", temporary_, errno);
    if (::close(std::exchange(fd_, -1)) != 0 || ::rename(temporary_.c_str(), path_.c_str()) != 0) {
      const int error = errno;
      ::unlink(temporary_.c_str());
      fail_to("write", path_, error);
    }
  }

 private:
  std::string path_;
  std::string temporary_;
  int fd_ = -1;
};

// Refuses names that leave the target folder; keys of an object store may be anything.
bool plain_file_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && is_utf8(name) &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

/// An empty file is copied as a newline, because tools that copy a pack may omit empty files. Of
/// TileDB's files only commits are empty, and only their names matter.
FileSum copy_file(const io::Store& store, const std::string& from, uint64_t size,
                  const std::string& to) {
  std::error_code error;
  if (size == 0) {
    write_file(to, "\n");
    return sum_of(io::FileStore(), to);
  }
  if (fs::file_size(to, error) == size && !error) return sum_of(io::FileStore(), to);
  FileSum sum{size, 0};
  NewFile file(to);
  Buffer piece;
  for (uint64_t done = 0; done < size; done += piece.size()) {
    piece.resize_discard(std::min(kCopyBytes, size - done));
    store.read(from, done, piece.span());
    file.write(reinterpret_cast<const char*>(piece.data()), piece.size());
    sum.crc32c = crc32c(piece.span(), sum.crc32c);
  }
  file.finish();
  return sum;
}

}  // namespace

void fail_to(const char* action, const std::string& path, int error) {
  const std::string message =
      std::string("cannot ") + action + ": " + std::generic_category().message(error) + ": " + path;
  if (error == ENOSPC || error == EDQUOT || error == EFBIG || error == EMFILE)
    throw ResourceExhausted(message);
  throw IoError(message);
}

void make_folder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) fail_to("make the folder", path, error.value());
}

void write_file(const std::string& path, std::string_view bytes) {
  NewFile file(path);
  file.write(bytes.data(), bytes.size());
  file.finish();
}

FileSums copy_tree(const io::Store& store, const std::string& from, const std::string& to) {
  make_folder(to);
  FileSums sums;
  auto entries = store.list(from);
  std::stable_partition(entries.begin(), entries.end(),
                        [](const io::DirectoryEntry& entry) { return entry.name == "__commits"; });
  for (const io::DirectoryEntry& entry : entries) {
    if (!plain_file_name(entry.name)) {
      throw CorruptData("a name that no file of a pack can have, or that is not UTF-8: '" +
                        entry.name + "', below " + from);
    }
    const std::string source = io::join(from, entry.name);
    const std::string target = io::join(to, entry.name);
    if (entry.is_directory) {
      for (const auto& [path, sum] : copy_tree(store, source, target)) {
        sums[io::join(entry.name, path)] = sum;
      }
    } else {
      sums[entry.name] = copy_file(store, source, entry.size_bytes, target);
    }
  }
  return sums;
}

}  // namespace penstock::format::pack
