#include "format/zarr/shards/shard_indexes.h"

#include <penstock/error.h>

#include <algorithm>
#include <utility>

#include "format/zarr/object_sizes.h"

namespace penstock::format::zarr {
namespace {

/// Stored indexes that are in memory together while they are parsed.
constexpr uint64_t kMostBytesAtOnce = uint64_t{64} << 20;

}  // namespace

std::vector<ShardIndexes::IndexPtr> ShardIndexes::get(const io::Store& store,
                                                      std::span<const Shard> shards) const {
  std::vector<IndexPtr> result(shards.size());
  std::vector<Shard> missing;
  std::vector<size_t> places;
  {
    const MutexLock lock(mutex_);
    for (size_t i = 0; i < shards.size(); ++i) {
      if (const auto found = kept_.find(shards[i].number); found != kept_.end()) {
        result[i] = found->second;
      } else {
        missing.push_back(shards[i]);
        places.push_back(i);
      }
    }
  }
  std::vector<IndexPtr> indexes = read(store, missing);
  const MutexLock lock(mutex_);
  for (size_t i = 0; i < missing.size(); ++i) {
    result[places[i]] = kept_.try_emplace(missing[i].number, std::move(indexes[i])).first->second;
  }
  return result;
}

std::vector<ShardIndexes::IndexPtr> ShardIndexes::read(const io::Store& store,
                                                       std::span<const Shard> shards) const {
  std::vector<std::string> paths;
  paths.reserve(shards.size());
  for (const Shard& shard : shards) paths.push_back(shard.path);
  const auto sizes = object_sizes(store, paths);
  std::vector<IndexPtr> indexes(shards.size());
  static const IndexPtr absent = std::make_shared<const ShardIndex>();
  for (size_t begin = 0, end = 0; begin < shards.size(); begin = end) {
    std::vector<io::ReadRequest> reads;
    std::vector<size_t> of_shard;
    std::vector<Buffer> stored;
    uint64_t bytes = 0;
    for (; end < shards.size() && (end == begin || bytes < kMostBytesAtOnce); ++end) {
      if (!sizes[end]) {
        indexes[end] = absent;
        continue;
      }
      const io::ByteRange place =
          with_place([&] { return form_.place_in(*sizes[end]); }, [&] { return paths[end]; });
      stored.emplace_back(place.length);
      bytes += place.length;
      reads.push_back({paths[end], place.offset, stored.back().span()});
      of_shard.push_back(end);
    }
    store.read_many(reads);
    for (size_t i = 0; i < of_shard.size(); ++i) {
      const size_t shard = of_shard[i];
      indexes[shard] = with_place(
          [&] {
            return std::make_shared<const ShardIndex>(
                ShardIndex::parse(stored[i].span(), form_, *sizes[shard]));
          },
          [&] { return paths[shard]; });
    }
  }
  return indexes;
}

}  // namespace penstock::format::zarr
