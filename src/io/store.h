#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/buffer.h"

// A place that keeps named byte objects: a directory tree, memory, later HTTP and S3.
//
// Paths are full URIs or file paths as the user wrote them; `join` puts a child name behind one.
// All methods are const and safe from any number of threads. A store holds no thread and no
// connection that does not survive a fork. Errors: `NotFound` for an object that is not there,
// `IoError` for a refusal of the system (with errno's text), `CorruptData` is never thrown here but
// for a body that is shorter than its length.

namespace penstock::io {

struct DirectoryEntry {
  std::string name;  ///< last path component, without a slash
  bool is_directory = false;
  uint64_t size_bytes = 0;  ///< 0 for directories
};

class Store {
 public:
  virtual ~Store() = default;

  /// Entries of a directory, sorted by name; empty when it does not exist.
  virtual std::vector<DirectoryEntry> list(const std::string& directory) const = 0;

  virtual bool exists(const std::string& path) const = 0;  ///< an object (not a directory)
  virtual bool is_directory(const std::string& path) const = 0;
  virtual uint64_t size_bytes(const std::string& path) const = 0;

  /// Fills `out` from `offset`; fewer bytes than asked for is `CorruptData` ("ends at …").
  virtual void read(const std::string& path, uint64_t offset, std::span<std::byte> out) const = 0;

  /// The whole object.
  Buffer read_all(const std::string& path) const;
};

using StorePtr = std::shared_ptr<const Store>;

/// The store that serves `uri`: a plain path or file:// URI. Other schemes are `Unsupported`.
StorePtr store_for(std::string_view uri);

/// A directory tree on local disk. Descriptors are opened per read and not kept.
StorePtr file_store();

/// "dir" + "name" with exactly one slash between.
std::string join(std::string_view directory, std::string_view name);

/// Without trailing slashes and a file:// prefix.
std::string normalize(std::string_view uri);

/// Last component of a path.
std::string base_name(std::string_view path);

}  // namespace penstock::io
