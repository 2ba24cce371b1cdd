#include "format/chunked/announce_ranges.h"

#include <numeric>

#include "base/threads/parallel.h"

namespace penstock::format::chunked {
namespace {

/// Round trips that are under way together.
constexpr unsigned kThreads = 16;

/// Stored bytes that are held until they are read.
constexpr uint64_t kMostBytes = uint64_t{64} << 20;

std::vector<ChunkPlace> places_of(const ArrayRange& range) {
  const ArrayInfo& info = range.array->info();
  if (info.shape.size() != 1 || range.begin >= range.end || range.end > info.shape[0]) return {};
  const uint64_t first = range.begin / info.chunk_shape[0];
  const uint64_t count = (range.end - 1) / info.chunk_shape[0] + 1 - first;
  if (count > kMostBytes / sizeof(ChunkPlace)) return {};
  std::vector<uint64_t> chunks(count);
  std::iota(chunks.begin(), chunks.end(), first);
  return range.array->places(chunks);
}

}  // namespace

void announce_ranges(const std::vector<ArrayRange>& ranges) {
  if (ranges.empty() || !ranges[0].array->store().traits().remote) return;
  std::vector<std::vector<ChunkPlace>> places(ranges.size());
  parallel_for(ranges.size(), kThreads, [&](size_t i) { places[i] = places_of(ranges[i]); });
  std::vector<io::ObjectRange> wanted;
  uint64_t bytes = 0;
  for (const std::vector<ChunkPlace>& of_array : places) {
    for (const ChunkPlace& place : of_array) {
      if (place.absent() || place.length > kMostBytes - bytes) continue;
      bytes += place.length;
      wanted.push_back({place.path, {place.offset, place.length}});
    }
  }
  ranges[0].array->store().will_read(wanted);
}

}  // namespace penstock::format::chunked
