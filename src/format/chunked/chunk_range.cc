#include "format/chunked/chunk_range.h"

#include <penstock/error.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/concat.h"
#include "base/threads/mutex.h"
#include "base/threads/parallel.h"

namespace penstock::format::chunked {
namespace {

/// Stored bytes in memory at a time, unless one chunk has more.
constexpr uint64_t kWindowBytes = uint64_t{64} << 20;

/// Parts from this size on are read without a copy; shorter ones are coalesced.
constexpr uint64_t kInPlaceBytes = uint64_t{1} << 20;

/// Memory of threads, handed from part to part.
class ScratchPool {
 public:
  codec::ChunkScratch take() {
    const MutexLock lock(mutex_);
    if (free_.empty()) return {};
    codec::ChunkScratch scratch = std::move(free_.back());
    free_.pop_back();
    return scratch;
  }
  void give_back(codec::ChunkScratch scratch) {
    const MutexLock lock(mutex_);
    free_.push_back(std::move(scratch));
  }

 private:
  Mutex mutex_;
  std::vector<codec::ChunkScratch> free_ PENSTOCK_GUARDED_BY(mutex_);
};

std::vector<ChunkPlace> places_of(const Array& array, uint64_t begin, uint64_t end) {
  const ArrayInfo& info = array.info();
  if (info.shape.size() != 1) {
    throw InvalidArgument(concat("an array of one dimension is needed, this one has ",
                                 info.shape.size(), ", in ", info.path));
  }
  if (begin > end || end > info.shape[0]) {
    throw InvalidArgument(concat("cells [", begin, ", ", end, ") of an array of ", info.shape[0],
                                 ", in ", info.path));
  }
  if (begin == end) return {};
  const uint64_t first = begin / info.chunk_shape[0];
  const uint64_t count = (end - 1) / info.chunk_shape[0] + 1 - first;
  if (count > kMostChunksAtOnce) {
    throw ResourceExhausted(concat("cells [", begin, ", ", end, ") lie in ", count,
                                   " chunks; at most ", kMostChunksAtOnce,
                                   " are read at once: read parts, in ", info.path));
  }
  std::vector<uint64_t> chunks(count);
  std::iota(chunks.begin(), chunks.end(), first);
  return array.places(chunks);
}

}  // namespace

ChunkRange::ChunkRange(const Array& array, uint64_t begin, uint64_t end)
    : array_(array), begin_(begin), end_(end), places_(places_of(array, begin, end)) {}

ChunkPart ChunkRange::part(size_t number) const {
  const uint64_t length = array_.info().chunk_shape[0];
  ChunkPart part;
  part.number = number;
  part.chunk_begin = (begin_ / length + number) * length;
  part.begin = std::max(begin_, part.chunk_begin);
  part.end = end_ - part.chunk_begin < length ? end_ : part.chunk_begin + length;
  part.skipped_filters = places_[number].skipped_filters;
  part.absent = places_[number].absent();
  return part;
}

uint64_t ChunkRange::stored_bytes() const noexcept {
  uint64_t bytes = 0;
  for (const ChunkPlace& place : places_) bytes += place.length;
  return bytes;
}

void ChunkRange::expect_backed(uint64_t cell_bytes) const {
  const ArrayInfo& info = array_.info();
  uint64_t absent_cells = 0;
  for (size_t i = 0; i < places_.size(); ++i) {
    const ChunkPart here = part(i);
    const ChunkPlace& place = places_[i];
    if (here.absent) {
      absent_cells += here.end - here.begin;
    } else if (info.cell_bytes != 0) {
      chunked::expect_backed(info, place);
    }
  }
  if (absent_cells > kMostAbsentBytes / std::max<uint64_t>(cell_bytes, 1)) {
    throw ResourceExhausted(concat("chunks of ", absent_cells,
                                   " cells are not stored, more than are read at once, in ",
                                   info.path));
  }
}

ChunkRange::Window ChunkRange::next_window(size_t first, const Steps& steps) const {
  const ArrayInfo& info = array_.info();
  Window window;
  uint64_t bytes = 0;
  for (size_t number = first; number < places_.size() && (number == first || bytes < kWindowBytes);
       ++number) {
    const ChunkPlace& place = places_[number];
    ChunkPart here = part(number);
    WantedBytes want;
    if (!here.absent) {
      want = {&place.path, {place.offset, place.length}};
      here.plain = info.cell_bytes != 0 && no_filter_applied(info, place.skipped_filters);
    }
    if (here.plain) {
      if (place.length != info.decoded_bytes()) {
        throw CorruptData(concat("a chunk must have ", info.decoded_bytes(), " bytes, has ",
                                 place.length, ", in ", place.path));
      }
      want.range.offset += (here.begin - here.chunk_begin) * info.cell_bytes;
      want.range.length = (here.end - here.begin) * info.cell_bytes;
      here.in_place = steps.room && want.range.length >= kInPlaceBytes;
    }
    if (here.in_place) {
      window.reads.push_back({place.path, want.range.offset, steps.room(here)});
      want = {};
    }
    bytes += want.range.length;
    window.parts.push_back(here);
    window.wanted.push_back(want);
  }
  return window;
}

void ChunkRange::for_each(unsigned threads, const Steps& steps) const {
  ScratchPool pool;
  for (size_t first = 0; first < places_.size();) {
    Window window = next_window(first, steps);
    const StoredChunks stored(array_.store(), window.wanted);
    array_.store().read_many(window.reads);
    parallel_for(window.parts.size(), threads, [&](size_t i) {
      ChunkPart& part = window.parts[i];
      part.stored = stored.bytes(i);
      codec::ChunkScratch scratch = pool.take();
      const ChunkPlace& place = places_[part.number];
      with_place([&] { steps.decode(part, scratch); },
                 [&] { return place.absent() ? array_.info().path : place.path; });
      pool.give_back(std::move(scratch));
    });
    const size_t last = first + window.parts.size();
    if (steps.after_window) steps.after_window(first, last);
    first = last;
  }
}

}  // namespace penstock::format::chunked
