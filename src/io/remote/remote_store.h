#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/threads/mutex.h"
#include "io/remote/fork_safe_lock.h"
#include "io/remote/object_source.h"
#include "io/remote/read_ahead.h"
#include "io/store.h"

// A Store over an ObjectSource. Listings, sizes and ETags are requested once and kept, so reads see
// the store as it was then. Announced ranges (will_read) are held until they are read.
//
// Thread-safe. All remote stores of the process share one lock (fork_safe_lock.h), which is never
// held during a request. A fork waits for it, so a child keeps what its parent knew.

namespace penstock::io {

class RemoteStore final : public Store {
 public:
  explicit RemoteStore(std::shared_ptr<const ObjectSource> source);

  std::vector<DirectoryEntry> list(const std::string& directory) const override;
  bool exists(const std::string& path) const override;
  bool is_directory(const std::string& path) const override;
  uint64_t size_bytes(const std::string& path) const override;
  std::string version(const std::string& path) const override;
  void read(const std::string& path, uint64_t offset, std::span<std::byte> out) const override;
  void read_many(std::span<const ReadRequest> reads) const override;
  StoreTraits traits() const override;
  bool will_open(const std::string& directory) const override;
  void will_read(std::span<const ObjectRange> ranges) const override;

  RemoteCounts counts() const { return source_->counts(); }

  /// Longest single request; longer reads are split.
  static constexpr uint64_t kMaxRequestBytes = uint64_t{8} << 20;
  /// Trees with more objects are listed folder by folder, on demand.
  static constexpr size_t kMaxTreeObjects = 20'000;

 private:
  using Folder = std::map<std::string, DirectoryEntry>;

  void add(const RemoteObject& object, const std::string& root) const
      PENSTOCK_REQUIRES(fork_safe_lock());
  void add_tree(const RemoteListing& listing, const std::string& root) const
      PENSTOCK_REQUIRES(fork_safe_lock());
  bool below_tree(const std::string& folder) const PENSTOCK_REQUIRES(fork_safe_lock());
  void need_folder(const std::string& path) const PENSTOCK_EXCLUDES(fork_safe_lock());
  RemoteObject object(const std::string& path) const PENSTOCK_EXCLUDES(fork_safe_lock());
  void fetch(std::vector<RemoteRead>& reads) const PENSTOCK_EXCLUDES(fork_safe_lock());

  const std::shared_ptr<const ObjectSource> source_;
  mutable std::map<std::string, Folder> folders_ PENSTOCK_GUARDED_BY(fork_safe_lock());
  mutable std::map<std::string, RemoteObject> objects_ PENSTOCK_GUARDED_BY(fork_safe_lock());
  mutable std::set<std::string> trees_
      PENSTOCK_GUARDED_BY(fork_safe_lock());  ///< folders whose whole tree is known
  mutable ReadAhead ahead_ PENSTOCK_GUARDED_BY(fork_safe_lock());
};

}  // namespace penstock::io
