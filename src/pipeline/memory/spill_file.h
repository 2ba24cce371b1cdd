#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/memory/mapped_region.h"

// Memory of last resort: an unlinked temporary file, mapped. Used if rows are larger than the
// plan's estimate. Disk space is allocated before it is mapped, so a full disk is an error here,
// not a signal later. One thread at a time; made on first use.

namespace penstock::pipeline {

class SpillFile {
 public:
  SpillFile() = default;
  ~SpillFile();
  SpillFile(const SpillFile&) = delete;
  SpillFile& operator=(const SpillFile&) = delete;

  /// Extends the file by `bytes` (a multiple of 4 KiB). Throws ResourceExhausted naming the
  /// directory.
  std::byte* extend(size_t bytes);

  uint64_t size() const noexcept { return size_; }
  bool contains(const std::byte* address) const noexcept;

 private:
  void open();
  int descriptor_ = -1;
  uint64_t size_ = 0;
  std::string directory_;
  std::vector<MappedRegion> regions_;
};

}  // namespace penstock::pipeline
