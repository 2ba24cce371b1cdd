#include "format/soma/x/decode_bound.h"

#include <penstock/error.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <vector>

#include "base/concat.h"
#include "base/memory/buffer.h"
#include "base/threads/mutex.h"
#include "base/threads/parallel.h"

namespace penstock::format::soma {
namespace {

/// A part of a tile in memory.
struct StoredTile {
  const XFragment* fragment = nullptr;
  XPart part = XPart::kRows;
  uint64_t cells = 0;
  Buffer bytes;
};

/// Buffers of one thread, reused in every round.
struct Workspace {
  codec::DecodeScratch scratch;
  Buffer out;
};

class Workspaces {
 public:
  std::unique_ptr<Workspace> take() {
    const MutexLock lock(mutex_);
    if (free_.empty()) return std::make_unique<Workspace>();
    auto workspace = std::move(free_.back());
    free_.pop_back();
    return workspace;
  }
  void give(std::unique_ptr<Workspace> workspace) {
    const MutexLock lock(mutex_);
    free_.push_back(std::move(workspace));
  }

 private:
  Mutex mutex_;
  std::vector<std::unique_ptr<Workspace>> free_ PENSTOCK_GUARDED_BY(mutex_);
};

std::shared_ptr<const XArray> open_sparse(const std::string& uri, unsigned threads) {
  try {
    return XArray::load(io::store_for(uri), io::normalize(uri), {}, threads);
  } catch (const Internal&) {
    throw Unsupported("the bound of decoding is measured on sparse arrays, not on " + uri);
  }
}

uint64_t bytes_of(const XFragment& fragment, uint64_t tile, std::span<const XPart> parts) {
  uint64_t bytes = 0;
  for (const XPart part : parts) bytes += fragment.range(part, tile).length;
  return bytes;
}

/// Every n-th tile of all, so that they hold at most `most_bytes`.
std::vector<XTileId> spread_tiles(const XArray& array, std::span<const XPart> parts,
                                  uint64_t most_bytes) {
  std::vector<XTileId> all;
  uint64_t bytes = 0;
  for (uint32_t f = 0; f < array.fragments().size(); ++f) {
    const XFragment& fragment = array.fragments()[f];
    for (uint64_t tile = 0; tile < fragment.metadata->tile_count(); ++tile) {
      all.push_back({f, tile});
      bytes += bytes_of(fragment, tile, parts);
    }
  }
  const uint64_t step = std::max<uint64_t>(1, bytes / std::max<uint64_t>(most_bytes, 1) + 1);
  std::vector<XTileId> chosen;
  for (size_t i = 0; i < all.size(); i += bytes <= most_bytes ? 1 : step) chosen.push_back(all[i]);
  return chosen;
}

std::vector<StoredTile> read_tiles(const XArray& array, std::span<const XTileId> tiles,
                                   std::span<const XPart> parts, DecodeBound& bound) {
  std::vector<StoredTile> stored;
  std::vector<io::ReadRequest> requests;
  stored.reserve(tiles.size() * parts.size());
  for (const XTileId id : tiles) {
    const XFragment& fragment = array.fragments()[id.fragment];
    bound.cells += fragment.cells(id.tile);
    for (const XPart part : parts) {
      const io::ByteRange range = fragment.range(part, id.tile);
      stored.push_back({&fragment, part, fragment.cells(id.tile), Buffer(range.length)});
      requests.push_back({fragment.path(part), range.offset, stored.back().bytes.span()});
      bound.stored_bytes += range.length;
    }
  }
  array.store().read_many(requests);
  return stored;
}

void decode(const StoredTile& tile, Workspace& workspace) {
  const tiledb::FragmentField& field = tile.fragment->field(tile.part);
  const uint64_t bytes = field.filters->decoded_bytes(tile.bytes.span());
  if (bytes != tile.cells * field.cell_bytes()) {
    throw CorruptData(concat("a tile of ", tile.cells, " cells decodes to ", bytes, " bytes, in ",
                             tile.fragment->path(tile.part)));
  }
  workspace.out.resize_discard(bytes);
  field.filters->decode(tile.bytes.span(), field.type,
                        tile.fragment->metadata->footer().format_version, workspace.out.span(),
                        workspace.scratch);
}

}  // namespace

DecodeBound measure_decode_bound(const std::string& uri, std::span<const XPart> parts,
                                 uint64_t most_bytes, unsigned threads, unsigned rounds) {
  const auto array = open_sparse(uri, threads);
  DecodeBound bound;
  bound.array_cells = array->info().stored_cells;
  const auto tiles = read_tiles(*array, spread_tiles(*array, parts, most_bytes), parts, bound);
  Workspaces workspaces;
  bound.seconds = std::numeric_limits<double>::infinity();
  for (unsigned round = 0; round < std::max(rounds, 1U); ++round) {
    const auto begin = std::chrono::steady_clock::now();
    parallel_for(tiles.size(), threads, [&](size_t i) {
      auto workspace = workspaces.take();
      decode(tiles[i], *workspace);
      workspaces.give(std::move(workspace));
    });
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    bound.seconds = std::min(bound.seconds, passed.count());
  }
  return bound;
}

}  // namespace penstock::format::soma
