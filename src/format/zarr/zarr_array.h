#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/threads/mutex.h"
#include "format/chunked/array.h"
#include "format/chunked/chunk_grid.h"
#include "format/zarr/metadata/array_metadata.h"
#include "format/zarr/shards/shard_indexes.h"

// An array of a zarr hierarchy: where its chunks lie, as objects of their own or in shards.

namespace penstock::format::zarr {

class ZarrArray final : public chunked::Array {
 public:
  /// `document`: where the metadata are.
  ZarrArray(io::StorePtr store, ArrayMetadata metadata, std::string document);

  const chunked::ArrayInfo& info() const override { return metadata_.info; }
  const nlohmann::json& attributes() const override { return metadata_.attributes; }
  const io::Store& store() const override { return *store_; }
  std::vector<chunked::ChunkPlace> places(std::span<const uint64_t> chunks) const override;
  double stored_bytes_per_chunk() const override;
  std::string version() const override;
  void expect_unchanged() const override;

 private:
  std::vector<chunked::ChunkPlace> places_of_objects(std::span<const uint64_t> chunks) const;
  std::vector<chunked::ChunkPlace> places_in_shards(std::span<const uint64_t> chunks) const;
  std::string path_of(std::span<const uint64_t> position) const;
  std::string document_version() const;

  const io::StorePtr store_;
  const ArrayMetadata metadata_;
  const std::string document_;
  const std::string document_version_;  ///< empty: not known
  const chunked::ChunkGrid grid_;
  const std::unique_ptr<const ShardIndexes> indexes_;  ///< null without shards
  mutable Mutex mutex_;
  mutable std::optional<double> bytes_per_chunk_ PENSTOCK_GUARDED_BY(mutex_);
};

}  // namespace penstock::format::zarr
