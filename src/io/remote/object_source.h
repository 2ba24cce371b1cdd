#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

// What differs between remote places: how objects are listed and how ranges of them are asked for.
// RemoteStore makes a Store of one. Paths are full URIs, without a slash at the end.
//
// All methods are safe from any number of threads, block, and end with cancel_requested().

namespace penstock::io {

struct RemoteObject {
  std::string path;
  uint64_t size_bytes = 0;
  std::string etag;             ///< empty when the listing has none
  std::string last_modified{};  ///< as answers say it; empty while it is not known
};

/// What an answer says of the state that its object is in; empty fields where it says nothing.
struct ObjectVersion {
  std::string etag, last_modified;

  /// Nothing says that it is another state. Times count where there are no ETags to compare.
  bool agrees_with(const RemoteObject& object) const {
    if (!etag.empty() && !object.etag.empty()) return etag == object.etag;
    return last_modified.empty() || object.last_modified.empty() ||
           last_modified == object.last_modified;
  }
};

struct RemoteListing {
  std::vector<RemoteObject> objects;
  std::vector<std::string> folders;  ///< of list_folder: paths of the folders in it
  bool complete = true;              ///< false: there are more than was asked for
};

/// A range of an object as it was when it was listed.
struct RemoteRead {
  RemoteObject object;
  uint64_t offset = 0;
  std::span<std::byte> out;
  ObjectVersion* seen = nullptr;  ///< set to what the answer says where the ETag is not known
};

struct RemoteCounts {
  uint64_t requests = 0;  ///< attempts, listings and retries included
  uint64_t retries = 0;
  uint64_t bytes = 0;  ///< of bodies
};

class ObjectSource {
 public:
  virtual ~ObjectSource() = default;

  /// All objects below `directory`, however deep, up to about `max_objects`.
  virtual RemoteListing list_tree(const std::string& directory, size_t max_objects) const = 0;
  /// One level.
  virtual RemoteListing list_folder(const std::string& directory) const = 0;
  /// All at once; throws the first error when none is under way any more. No read is empty, none
  /// reaches beyond its object's size.
  virtual void read(std::span<RemoteRead> reads) const = 0;

  virtual RemoteCounts counts() const { return {}; }
};

}  // namespace penstock::io
