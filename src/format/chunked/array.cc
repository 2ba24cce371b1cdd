#include "format/chunked/array.h"

#include <penstock/error.h>

#include <string_view>

#include "base/checked.h"
#include "base/concat.h"
#include "format/chunked/chunk_grid.h"

namespace penstock::format::chunked {
namespace {

uint64_t product(std::span<const uint64_t> lengths, std::string_view what) {
  uint64_t result = 1;
  for (const uint64_t length : lengths) result = checked_mul(result, length, what);
  return result;
}

uint64_t chunks_along(uint64_t length, uint64_t chunk_length) {
  return length / chunk_length + (length % chunk_length != 0 ? 1 : 0);
}

}  // namespace

uint64_t ArrayInfo::cells() const { return product(shape, "the number of cells"); }

uint64_t ArrayInfo::chunk_cells() const {
  return product(chunk_shape, "the number of cells in a chunk");
}

uint64_t ArrayInfo::chunk_count() const { return ChunkGrid(*this).count(); }

uint64_t ArrayInfo::decoded_bytes() const {
  return checked_mul<uint64_t>(chunk_cells(), cell_bytes, "the size of a chunk");
}

void expect_sound(const ArrayInfo& info) {
  if (info.shape.size() != info.chunk_shape.size()) {
    throw CorruptData(concat("an array must have as many dimensions as its chunks, but has ",
                             info.shape.size(), ", its chunks ", info.chunk_shape.size()));
  }
  if (info.shape.size() > kMostDimensions) {
    throw CorruptData(concat("an array of ", info.shape.size(), " dimensions, at most ",
                             kMostDimensions, " are possible"));
  }
  uint64_t chunks = 1;
  for (size_t d = 0; d < info.shape.size(); ++d) {
    if (info.chunk_shape[d] == 0) {
      throw CorruptData(concat("chunks of length 0 in dimension ", d));
    }
    chunks = checked_mul(chunks, chunks_along(info.shape[d], info.chunk_shape[d]),
                         "the number of chunks");
  }
  if (chunks > kMostChunks) {
    throw CorruptData(concat("an array of ", chunks, " chunks, more than 2^32"));
  }
  checked_mul<uint64_t>(info.cells(), info.cell_bytes, "the size of an array");
  info.decoded_bytes();
}

ChunkGrid::ChunkGrid(const ArrayInfo& info) {
  expect_sound(info);
  lengths_.reserve(info.shape.size());
  for (size_t d = 0; d < info.shape.size(); ++d) {
    lengths_.push_back(chunks_along(info.shape[d], info.chunk_shape[d]));
    count_ *= lengths_.back();
  }
}

void ChunkGrid::position_of(uint64_t chunk, std::span<uint64_t> position) const noexcept {
  for (size_t d = lengths_.size(); d-- > 0;) {
    position[d] = chunk % lengths_[d];
    chunk /= lengths_[d];
  }
}

Strings Array::strings_of(std::span<const std::byte> /*cells*/, unsigned /*threads*/) const {
  throw InvalidArgument("the strings of this array are no references, in " + info().path);
}

bool no_filter_applied(const ArrayInfo& info, uint32_t skipped_filters) {
  const auto& filters = info.pipeline.filters();
  for (size_t i = 0; i < filters.size(); ++i) {
    if (i >= 32 || (skipped_filters >> i & 1U) == 0) return false;
  }
  return true;
}

void expect_backed(const ArrayInfo& info, const ChunkPlace& place) {
  const uint64_t decoded = info.decoded_bytes();
  const uint64_t most = no_filter_applied(info, place.skipped_filters)
                            ? place.length
                            : info.pipeline.most_decoded_bytes(place.length);
  if (decoded > most) {
    throw CorruptData(concat("a chunk of ", decoded, " bytes cannot be stored in ", place.length,
                             " bytes, in ", place.path));
  }
  // No filter makes so much more of bytes that do not compress.
  constexpr uint64_t kMostMore = uint64_t{1} << 20;
  if (place.length / 2 > decoded && place.length > kMostMore) {
    throw CorruptData(concat("a chunk of ", decoded, " bytes is stored in ", place.length,
                             " bytes, in ", place.path));
  }
}

}  // namespace penstock::format::chunked
