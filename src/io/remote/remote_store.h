#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "io/remote/object_source.h"
#include "io/remote/read_ahead.h"
#include "io/store.h"

// A Store over an ObjectSource: listings and sizes are asked for once and kept, so that what is
// read is the store as it was then (each object with its size and ETag), and ranges that were
// announced (will_read) are held until they are read.
//
// Thread-safe; one lock for all remote stores of the process, never held during a request, which a
// fork waits for (remote_store.cc), so that a child can go on with what its parent knew.

namespace penstock::io {

class RemoteStore final : public Store {
 public:
  explicit RemoteStore(std::shared_ptr<const ObjectSource> source);

  std::vector<DirectoryEntry> list(const std::string& directory) const override;
  bool exists(const std::string& path) const override;
  bool is_directory(const std::string& path) const override;
  uint64_t size_bytes(const std::string& path) const override;
  void read(const std::string& path, uint64_t offset, std::span<std::byte> out) const override;
  void read_many(std::span<const ReadRequest> reads) const override;
  StoreTraits traits() const override;
  bool will_open(const std::string& directory) const override;
  void will_read(std::span<const ObjectRange> ranges) const override;

  RemoteCounts counts() const { return source_->counts(); }

  /// Longest single request; longer reads are cut.
  static constexpr uint64_t kMaxRequestBytes = uint64_t{8} << 20;
  /// Trees with more objects are listed folder by folder, as they are asked for.
  static constexpr size_t kMaxTreeObjects = 20'000;

 private:
  using Folder = std::map<std::string, DirectoryEntry>;

  void add(const RemoteObject& object, const std::string& root) const;
  bool below_tree(const std::string& folder) const;  // under the lock
  void need_folder(const std::string& path) const;
  RemoteObject object(const std::string& path) const;
  void fetch(std::vector<RemoteRead>& reads) const;

  const std::shared_ptr<const ObjectSource> source_;
  // Guarded by the process's lock.
  mutable std::map<std::string, Folder> folders_;
  mutable std::map<std::string, RemoteObject> objects_;
  mutable std::set<std::string> trees_;  ///< all below is known
  mutable ReadAhead ahead_;
};

}  // namespace penstock::io
