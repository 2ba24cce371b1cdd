#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "io/range_coalescing.h"

// A place that keeps named byte objects: a directory tree, memory, an HTTP server, S3.
//
// Paths are full URIs or file paths as the user wrote them; `join` puts a child name behind one.
// All methods are const and safe from any number of threads. A store holds no thread and no
// connection that does not survive a fork. A caller that knows what it will ask says so first
// (will_open, will_read): it costs nothing for files, and makes one round trip of many for a remote
// store. Answers are the same without. Errors: `NotFound` for an object that is not there,
// `IoError` for a refusal of the system (with errno's text), `CorruptData` is never thrown here but
// for a body that is shorter than its length.

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

/// A read of read_many; `out` sets its length.
struct ReadRequest {
  std::string path;
  uint64_t offset = 0;
  std::span<std::byte> out;
};

/// What a caller should know to read well from a store.
struct StoreTraits {
  bool remote = false;           ///< an answer takes a network's round trip
  CoalescingOptions coalescing;  ///< which ranges to read together
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

  /// All of them, of any objects, at once where that pays; the first error is thrown when none is
  /// under way any more. Each is as one read().
  virtual void read_many(std::span<const ReadRequest> reads) const;

  virtual StoreTraits traits() const { return {}; }

  /// Most of what lies below `directory` will be listed or asked for. True when the store is remote
  /// and from now on no listing or size below it costs a round trip.
  virtual bool will_open(const std::string& /*directory*/) const { return false; }
  /// These bytes will be read, soon, by calls that ask for nothing outside one of the ranges.
  /// Ranges that reach beyond an object's end are cut; objects that are not there are passed over.
  virtual void will_read(std::span<const ObjectRange> /*ranges*/) const {}

  /// The whole object.
  Buffer read_all(const std::string& path) const;
};

using StorePtr = std::shared_ptr<const Store>;

/// The store that serves `uri`, with default options (storage_options.h).
StorePtr store_for(std::string_view uri);

/// Letters before "://"; empty when there are none.
std::string scheme_of(std::string_view uri);

/// A directory tree on local disk. Descriptors are opened per read and not kept.
StorePtr file_store();

/// "dir" + "name" with exactly one slash between.
std::string join(std::string_view directory, std::string_view name);

/// Without trailing slashes and a file:// prefix.
std::string normalize(std::string_view uri);

/// A relative path that stays below the folder it is put behind: no part of it is empty, "." or
/// "..", and it has no zero byte. Names that others give are asked for this.
bool is_plain_path(std::string_view path);

/// Last component of a path.
std::string base_name(std::string_view path);

}  // namespace penstock::io
