#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/threads/mutex.h"
#include "format/zarr/shards/shard_index.h"
#include "io/store.h"

// The indexes of an array's shards, read once and kept: 16 bytes a chunk. Safe from any thread. Two
// threads that ask for the same shard at the same time may both read it.

namespace penstock::format::zarr {

class ShardIndexes {
 public:
  struct Shard {
    uint64_t number = 0;
    std::string path;
  };

  explicit ShardIndexes(const ShardIndexForm& form) : form_(form) {}

  /// Indexes of shards, in the order given; those that are not kept yet are read together.
  std::vector<std::shared_ptr<const ShardIndex>> get(const io::Store& store,
                                                     std::span<const Shard> shards) const;

 private:
  using IndexPtr = std::shared_ptr<const ShardIndex>;

  std::vector<IndexPtr> read(const io::Store& store, std::span<const Shard> shards) const;

  const ShardIndexForm form_;
  mutable Mutex mutex_;
  mutable std::map<uint64_t, IndexPtr> kept_ PENSTOCK_GUARDED_BY(mutex_);
};

}  // namespace penstock::format::zarr
