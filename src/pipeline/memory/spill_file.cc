#include "pipeline/memory/spill_file.h"

#include <fcntl.h>
#include <penstock/error.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/concat.h"

namespace penstock::pipeline {

SpillFile::~SpillFile() {
  regions_.clear();
  if (descriptor_ >= 0) ::close(descriptor_);
}

void SpillFile::open() {
  const char* const named = std::getenv("TMPDIR");
  directory_ = named != nullptr && *named != '\0' ? named : "/tmp";
  std::string path = directory_ + "/penstock-spill-XXXXXX";
  descriptor_ = ::mkostemp(path.data(), O_CLOEXEC);
  if (descriptor_ < 0) {
    throw ResourceExhausted("cannot make a temporary file to spill rows to: " +
                            std::string(std::strerror(errno)) + ", in " + directory_);
  }
  ::unlink(path.c_str());
}

std::byte* SpillFile::extend(size_t bytes) {
  if (descriptor_ < 0) open();
  const int error =
      ::posix_fallocate(descriptor_, static_cast<off_t>(size_), static_cast<off_t>(bytes));
  if (error != 0) {
    throw ResourceExhausted(concat("cannot spill rows: ", std::strerror(error), ", ", bytes,
                                   " bytes after ", size_, ", in ", directory_));
  }
  regions_.push_back(MappedRegion::of_file(descriptor_, size_, bytes));
  size_ += bytes;
  return regions_.back().data();
}

bool SpillFile::contains(const std::byte* address) const noexcept {
  for (const MappedRegion& region : regions_) {
    if (region.contains(address)) return true;
  }
  return false;
}

}  // namespace penstock::pipeline
