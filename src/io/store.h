#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/memory/buffer.h"
#include "io/range_coalescing.h"

// A store of named byte objects: a directory tree, memory, an HTTP server, S3.
//
// Paths are full URIs or file paths as the user wrote them; `join` appends a child name. All
// methods are const and safe from any number of threads. A store survives a fork.
//
// Callers that know what they will read announce it (will_open, will_read). For files this costs
// nothing; for a remote store many round trips become one. Results are the same without.
//
// Errors: `NotFound` if an object does not exist, `IoError` if the system refuses (with errno's
// text), `CorruptData` only if a body is shorter than its length.

namespace penstock::io {

struct DirectoryEntry {
  std::string name;  ///< last path component, without a slash
  bool is_directory = false;
  uint64_t size_bytes = 0;  ///< 0 for directories
};

/// A range of an object that will be read.
struct ObjectRange {
  std::string path;
  ByteRange range;
};

/// A read of read_many; its length is that of `out`.
struct ReadRequest {
  std::string path;
  uint64_t offset = 0;
  std::span<std::byte> out;
};

/// Properties of a store that decide how to read from it.
struct StoreTraits {
  bool remote = false;           ///< a request takes a network round trip
  CoalescingOptions coalescing;  ///< which ranges to read together
};

class Store {
 public:
  virtual ~Store() = default;

  /// Entries of a directory, sorted by name; empty if it does not exist.
  virtual std::vector<DirectoryEntry> list(const std::string& directory) const = 0;

  virtual bool exists(const std::string& path) const = 0;  ///< an object (not a directory)
  virtual bool is_directory(const std::string& path) const = 0;
  virtual uint64_t size_bytes(const std::string& path) const = 0;
  /// A text that changes when the object is written: size and time of a file, ETag of a remote
  /// object. Empty if the store cannot tell. Throws `NotFound`.
  virtual std::string version(const std::string& /*path*/) const { return {}; }

  /// Fills `out` from `offset`. Throws `CorruptData` ("ends at …") if the object is too short.
  virtual void read(const std::string& path, uint64_t offset, std::span<std::byte> out) const = 0;

  /// Reads ranges of any objects, at once if that is faster. Each is as one read(). The first error
  /// is thrown when no read is running any more.
  virtual void read_many(std::span<const ReadRequest> reads) const;

  virtual StoreTraits traits() const { return {}; }

  /// Announces that most objects below `directory` will be listed or read. True if the store is
  /// remote and listings and sizes below it cost no round trips from now on.
  virtual bool will_open(const std::string& /*directory*/) const { return false; }
  /// Announces that these bytes will be read soon, by reads that lie within one range each. Ranges
  /// are cut at an object's end. Missing objects are ignored.
  virtual void will_read(std::span<const ObjectRange> /*ranges*/) const {}

  /// The whole object.
  Buffer read_all(const std::string& path) const;
};

using StorePtr = std::shared_ptr<const Store>;

/// The store that serves `uri`, with default options (storage_options.h).
StorePtr store_for(std::string_view uri);

/// Letters before "://"; empty when there are none.
std::string scheme_of(std::string_view uri);

/// A directory tree on local disk. Each read opens and closes a descriptor.
StorePtr file_store();

/// "dir" + "name" with exactly one slash between them.
std::string join(std::string_view directory, std::string_view name);

/// Without trailing slashes and a file:// prefix.
std::string normalize(std::string_view uri);

/// Whether a relative path stays below the folder that it is joined to: no part is empty, "." or
/// "..", and there is no zero byte. For names from untrusted sources.
bool is_plain_path(std::string_view path);

/// Last component of a path.
std::string base_name(std::string_view path);

}  // namespace penstock::io
