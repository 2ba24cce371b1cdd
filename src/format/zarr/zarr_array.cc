#include "format/zarr/zarr_array.h"

#include <penstock/error.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/concat.h"
#include "base/hash/hex.h"
#include "base/hash/sha256.h"
#include "format/zarr/object_sizes.h"

namespace penstock::format::zarr {
namespace {

using chunked::ChunkPlace;

/// Chunks whose sizes stand for all.
constexpr uint64_t kSamples = 12;

}  // namespace

ZarrArray::ZarrArray(io::StorePtr store, ArrayMetadata metadata, std::string document)
    : store_(std::move(store)),
      metadata_(std::move(metadata)),
      document_(std::move(document)),
      document_version_(document_version()),
      grid_(metadata_.info),
      indexes_(metadata_.sharding ? std::make_unique<ShardIndexes>(metadata_.sharding->index)
                                  : nullptr) {}

std::string ZarrArray::document_version() const {
  if (store_->traits().remote) return {};
  try {
    return store_->version(document_);
  } catch (const NotFound&) {
    return {};
  }
}

// Who writes an array again writes its metadata first, or removes them.
void ZarrArray::expect_unchanged() const {
  if (document_version_.empty() || document_version() == document_version_) return;
  throw CorruptData("the array was written or removed since it was opened; open it again, in " +
                    metadata_.info.path);
}

std::string ZarrArray::path_of(std::span<const uint64_t> position) const {
  return io::join(metadata_.info.path, metadata_.keys.key_of(position));
}

std::vector<ChunkPlace> ZarrArray::places(std::span<const uint64_t> chunks) const {
  for (const uint64_t chunk : chunks) {
    if (chunk >= grid_.count()) {
      throw InvalidArgument(concat("chunk ", chunk, " of an array of ", grid_.count(),
                                   " chunks, in ", metadata_.info.path));
    }
  }
  return metadata_.sharding ? places_in_shards(chunks) : places_of_objects(chunks);
}

std::vector<ChunkPlace> ZarrArray::places_of_objects(std::span<const uint64_t> chunks) const {
  std::vector<uint64_t> position(grid_.dimensions());
  std::vector<std::string> paths;
  paths.reserve(chunks.size());
  for (const uint64_t chunk : chunks) {
    grid_.position_of(chunk, position);
    paths.push_back(path_of(position));
  }
  const auto sizes = object_sizes(*store_, paths);
  std::vector<ChunkPlace> result(chunks.size());
  for (size_t i = 0; i < chunks.size(); ++i) {
    if (sizes[i]) result[i] = {std::move(paths[i]), 0, *sizes[i], 0};
  }
  return result;
}

std::vector<ChunkPlace> ZarrArray::places_in_shards(std::span<const uint64_t> chunks) const {
  const chunked::ArrayInfo& info = metadata_.info;
  const std::vector<uint64_t>& shard_shape = metadata_.sharding->shard_shape;
  std::vector<uint64_t> position(grid_.dimensions());
  std::vector<ShardIndexes::Shard> shards;
  std::map<uint64_t, size_t> of_number;            // place in `shards`
  std::vector<std::pair<size_t, uint64_t>> where;  // of each chunk: shard, number in it
  where.reserve(chunks.size());
  for (const uint64_t chunk : chunks) {
    grid_.position_of(chunk, position);
    uint64_t shard = 0;
    uint64_t inner = 0;
    for (size_t d = 0; d < position.size(); ++d) {
      const uint64_t across = shard_shape[d] / info.chunk_shape[d];
      shard = shard * ((grid_.length(d) - 1) / across + 1) + position[d] / across;
      inner = inner * across + position[d] % across;
      position[d] /= across;
    }
    const auto [found, added] = of_number.try_emplace(shard, shards.size());
    if (added) shards.push_back({shard, path_of(position)});
    where.emplace_back(found->second, inner);
  }
  const auto indexes = indexes_->get(*store_, shards);
  std::vector<ChunkPlace> result(chunks.size());
  for (size_t i = 0; i < chunks.size(); ++i) {
    const auto range = indexes[where[i].first]->chunk(where[i].second);
    if (range) result[i] = {shards[where[i].first].path, range->offset, range->length, 0};
  }
  return result;
}

double ZarrArray::stored_bytes_per_chunk() const {
  const uint64_t count = grid_.count();
  if (count == 0) return 0;
  {
    const MutexLock lock(mutex_);
    if (bytes_per_chunk_) return *bytes_per_chunk_;
  }
  std::vector<uint64_t> chunks;
  const uint64_t samples = std::min(count, kSamples);
  chunks.reserve(samples);
  // In the middle of equal parts: the last chunk is often a short one.
  for (uint64_t i = 0; i < samples; ++i)
    chunks.push_back(count / samples * i + count / samples / 2);
  // Without the lock, because places() may call the wait hook.
  double total = 0;
  for (const ChunkPlace& place : places(chunks)) total += static_cast<double>(place.length);
  const MutexLock lock(mutex_);
  if (!bytes_per_chunk_) bytes_per_chunk_ = total / static_cast<double>(samples);
  return *bytes_per_chunk_;
}

std::string ZarrArray::version() const {
  // Objects are chunks, or shards, of the grid that their shape gives.
  chunked::ArrayInfo stored = metadata_.info;
  if (metadata_.sharding) stored.chunk_shape = metadata_.sharding->shard_shape;
  const chunked::ChunkGrid objects(stored);
  std::vector<uint64_t> position(objects.dimensions());
  std::vector<std::string> paths;
  for (uint64_t object = 0; object < objects.count(); ++object) {
    objects.position_of(object, position);
    paths.push_back(path_of(position));
  }
  const auto sizes = object_sizes(*store_, paths);
  std::string text;
  for (size_t i = 0; i < paths.size(); ++i) {
    if (!sizes[i]) {
      text += "absent\n";
      continue;
    }
    const std::string own = store_->version(paths[i]);
    if (own.empty()) return {};
    text += own + "\n";
  }
  return concat("zarr ", stored.layout, " ", paths.size(), " objects ", hex(sha256(text)));
}

}  // namespace penstock::format::zarr
