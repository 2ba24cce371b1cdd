#pragma once

#include <string>
#include <vector>

#include "io/store.h"

// A directory tree on local disk, read with plain system calls (open, pread, fstat, readdir).
//
// A FileStore has no state: each call opens what it needs and closes it. So it is safe from any
// number of threads and survives a fork. A read costs one open, one or more preads and one close
// (about 2 us on a warm local disk), so callers merge neighbouring ranges first
// (range_coalescing.h).

namespace penstock::io {

class FileStore final : public Store {
 public:
  std::vector<DirectoryEntry> list(const std::string& directory) const override;
  bool exists(const std::string& path) const override;
  bool is_directory(const std::string& path) const override;
  uint64_t size_bytes(const std::string& path) const override;
  std::string version(const std::string& path) const override;
  void read(const std::string& path, uint64_t offset, std::span<std::byte> out) const override;
};

}  // namespace penstock::io
