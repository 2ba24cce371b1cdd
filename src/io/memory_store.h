#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/threads/mutex.h"
#include "io/store.h"

// Objects in memory, for tests and fuzz targets. Answers as a FileStore over the same tree does. An
// object can be damaged between two reads (put, truncate, remove).
//
// A directory exists as long as it has an object below it, as on an object store. Every method
// locks; the next read sees a damaged object.

namespace penstock::io {

class MemoryStore final : public Store {
 public:
  /// Adds or replaces an object.
  void put(const std::string& path, std::span<const std::byte> bytes);
  void put(const std::string& path, std::string_view bytes);
  /// Removes an object, if there is one.
  void remove(const std::string& path);
  /// Cuts an object to its first `size` bytes.
  void truncate(const std::string& path, uint64_t size);
  /// Copies every object below `directory` of another store, under the same paths.
  void copy_tree(const Store& from, const std::string& directory);
  /// Paths of all objects, sorted.
  std::vector<std::string> paths() const;

  std::vector<DirectoryEntry> list(const std::string& directory) const override;
  bool exists(const std::string& path) const override;
  bool is_directory(const std::string& path) const override;
  uint64_t size_bytes(const std::string& path) const override;
  std::string version(const std::string& path) const override;
  void read(const std::string& path, uint64_t offset, std::span<std::byte> out) const override;

 private:
  mutable Mutex mutex_;
  std::map<std::string, std::vector<std::byte>> objects_ PENSTOCK_GUARDED_BY(mutex_);
};

}  // namespace penstock::io
