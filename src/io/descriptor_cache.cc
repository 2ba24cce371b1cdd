#include "io/descriptor_cache.h"

#include <fcntl.h>
#include <penstock/error.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <list>
#include <unordered_map>
#include <utility>

#include "base/concat.h"
#include "base/threads/mutex.h"
#include "io/file_error.h"

namespace penstock::io {
namespace {

/// Open files by path, the most recently used first.
class DescriptorCache {
 public:
  std::shared_ptr<const OpenFile> open(const std::string& path) {
    const MutexLock lock(mutex_);
    if (const auto found = by_path_.find(path); found != by_path_.end()) {
      files_.splice(files_.begin(), files_, found->second);
      return found->second->second;
    }
    while (files_.size() >= descriptor_limit()) drop_last();
    std::shared_ptr<const OpenFile> file;
    try {
      file = std::make_shared<const OpenFile>(path);
    } catch (const ResourceExhausted&) {
      // The rest of the process has used up the descriptors: empty the cache and try again.
      if (files_.empty()) throw;
      while (files_.size() > 1) drop_last();
      drop_last();
      file = std::make_shared<const OpenFile>(path);
    }
    files_.emplace_front(path, file);
    by_path_.emplace(path, files_.begin());
    return file;
  }

  void forget(const std::string& path) {
    const MutexLock lock(mutex_);
    const auto found = by_path_.find(path);
    if (found == by_path_.end()) return;
    files_.erase(found->second);
    by_path_.erase(found);
  }

 private:
  using Files = std::list<std::pair<std::string, std::shared_ptr<const OpenFile>>>;

  void drop_last() PENSTOCK_REQUIRES(mutex_) {
    by_path_.erase(files_.back().first);
    files_.pop_back();
  }

  Mutex mutex_;
  Files files_ PENSTOCK_GUARDED_BY(mutex_);
  std::unordered_map<std::string, Files::iterator> by_path_ PENSTOCK_GUARDED_BY(mutex_);
};

DescriptorCache* process_cache = nullptr;

/// A child gets its own cache, because the parent's may have been locked during the fork. The
/// parent's cache is leaked in the child: its readers may still use the descriptors.
void renew() { process_cache = new DescriptorCache; }

DescriptorCache& cache() {
  static const bool once = [] {
    renew();
    ::pthread_atfork(nullptr, nullptr, renew);
    return true;
  }();
  static_cast<void>(once);
  return *process_cache;
}

}  // namespace

OpenFile::OpenFile(const std::string& path) : path_(path) {
  do {
    fd_ = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);  // a pipe would wait for writers
  } while (fd_ < 0 && errno == EINTR);
  if (fd_ < 0) throw_file_error("open", path, errno);
  struct stat info;
  if (::fstat(fd_, &info) != 0) {
    const int error = errno;
    ::close(fd_);
    throw_file_error("look at", path, error);
  }
  try {
    expect_regular(path, info.st_mode);
  } catch (...) {
    ::close(fd_);
    throw;
  }
  device_ = static_cast<uint64_t>(info.st_dev);
  number_ = static_cast<uint64_t>(info.st_ino);
  size_bytes_ = static_cast<uint64_t>(info.st_size);
}

OpenFile::~OpenFile() { ::close(fd_); }

void OpenFile::read(uint64_t offset, std::span<std::byte> out) const {
  size_t done = 0;
  while (done < out.size()) {
    const uint64_t position = offset + done;
    if (position > static_cast<uint64_t>(INT64_MAX)) {
      throw CorruptData(concat("offset is out of range: ", position, ", in ", path_));
    }
    const ssize_t count =
        ::pread(fd_, out.data() + done, out.size() - done, static_cast<off_t>(position));
    if (count < 0) {
      if (errno == EINTR) continue;
      throw_file_error("read", path_, errno);
    }
    if (count == 0) {
      throw CorruptData(concat("truncated: wanted ", out.size(), " bytes at offset ", offset,
                               ", ends at ", position, ", in ", path_));
    }
    done += static_cast<size_t>(count);
  }
}

void OpenFile::will_need(uint64_t offset, uint64_t length) const noexcept {
  static_cast<void>(::posix_fadvise(fd_, static_cast<off_t>(offset), static_cast<off_t>(length),
                                    POSIX_FADV_WILLNEED));
}

std::shared_ptr<const OpenFile> open_descriptor(const std::string& path) {
  return cache().open(path);
}

void forget_descriptor(const std::string& path) { cache().forget(path); }

size_t descriptor_limit() {
  constexpr size_t kMost = 4096;
  struct rlimit limit;
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kMost;
  return std::clamp<size_t>(static_cast<size_t>(limit.rlim_cur) / 4, 1, kMost);
}

}  // namespace penstock::io
