#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

// The interface of a remote source: how objects are listed and how their ranges are read.
// RemoteStore makes it a Store. Paths are full URIs without a trailing slash.
//
// All methods are safe from any number of threads, block, and end with cancel_requested().

namespace penstock::io {

struct RemoteObject {
  std::string path;
  uint64_t size_bytes = 0;
  std::string etag;             ///< empty if the listing has none
  std::string last_modified{};  ///< as in responses; empty while unknown
};

/// Version of an object according to a response; empty fields if the response has none.
struct ObjectVersion {
  std::string etag, last_modified;

  /// Whether both may be the same version. Times are compared only without ETags.
  bool agrees_with(const RemoteObject& object) const {
    if (!etag.empty() && !object.etag.empty()) return etag == object.etag;
    return last_modified.empty() || object.last_modified.empty() ||
           last_modified == object.last_modified;
  }
};

struct RemoteListing {
  std::vector<RemoteObject> objects;
  std::vector<std::string> folders;  ///< list_folder: paths of the folders in it
  bool complete = true;              ///< false: there are more than max_objects
  bool whole_tree = false;           ///< list_folder: all objects below, where that costs no more
};

/// A read of a range of an object in its listed version.
struct RemoteRead {
  RemoteObject object;
  uint64_t offset = 0;
  std::span<std::byte> out;
  ObjectVersion* seen = nullptr;  ///< set to the response's version if the ETag is not known
};

struct RemoteCounts {
  uint64_t requests = 0;  ///< attempts, listings and retries included
  uint64_t retries = 0;
  uint64_t bytes = 0;  ///< of bodies
};

class ObjectSource {
 public:
  virtual ~ObjectSource() = default;

  /// All objects below `directory`, at any depth, up to about `max_objects`.
  virtual RemoteListing list_tree(const std::string& directory, size_t max_objects) const = 0;
  /// One level, or the whole tree if that costs no more.
  virtual RemoteListing list_folder(const std::string& directory) const = 0;
  /// An object that can be found without a listing, by the request of a byte: a file on a web
  /// server. Nothing if there is none, or if its name does not say that it is a whole data set.
  virtual std::optional<RemoteObject> find_file(const std::string& /*path*/) const {
    return std::nullopt;
  }
  /// Reads all at once. Throws the first error when no read is running any more. Reads must not be
  /// empty or exceed their object's size.
  virtual void read(std::span<RemoteRead> reads) const = 0;

  virtual RemoteCounts counts() const { return {}; }
};

}  // namespace penstock::io
