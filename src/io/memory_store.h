#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "io/store.h"

// Objects that live in memory, for tests and fuzz targets: the same answers as a FileStore over the
// same tree, and the means to damage an object (put, truncate, remove) between two reads.
//
// Directories exist as long as an object below them does, as on an object store. Every method
// locks; a damaged object is seen by the next read.

namespace penstock::io {

class MemoryStore final : public Store {
 public:
  /// Adds or replaces an object.
  void put(const std::string& path, std::span<const std::byte> bytes);
  void put(const std::string& path, std::string_view bytes);
  /// Removes an object; nothing happens when there is none.
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
  void read(const std::string& path, uint64_t offset, std::span<std::byte> out) const override;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::vector<std::byte>> objects_;  // guarded by mutex_
};

}  // namespace penstock::io
