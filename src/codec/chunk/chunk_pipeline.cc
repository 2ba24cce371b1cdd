#include "codec/chunk/chunk_pipeline.h"

#include <penstock/error.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "base/concat.h"
#include "codec/chunk/chunk_parts.h"
#include "codec/chunk/chunk_step.h"

namespace penstock::codec {
namespace {

constexpr uint64_t kNoBound = std::numeric_limits<uint64_t>::max();

/// Most bytes that a filter makes when it writes `decoded` bytes, however badly they compress.
uint64_t most_written_bytes(uint64_t decoded) noexcept {
  const uint64_t more = decoded / 8 + (uint64_t{64} << 10);
  return decoded > kNoBound - more ? kNoBound : decoded + more;
}

void check_size(uint64_t got, uint64_t expected) {
  if (got != expected) {
    throw CorruptData(concat("the chunk has ", got, " bytes, expected ", expected));
  }
}

/// A chunk on its way through the filters that were applied to it, last one first.
class ChunkDecode {
 public:
  ChunkDecode(std::span<const ChunkFilter> filters, uint32_t skipped,
              std::span<const std::byte> stored, ChunkScratch& scratch)
      : filters_(filters), skipped_(skipped), data_(stored), scratch_(scratch) {
    left_ = filters.size();
    find_next();
  }

  /// The filter to undo next; null after the last one.
  const ChunkFilter* next() const noexcept { return left_ > 0 ? &filters_[left_ - 1] : nullptr; }

  /// Whether another filter follows the next one.
  bool is_last() const noexcept {
    for (size_t index = left_ - 1; index-- > 0;) {
      if (applied(index)) return false;
    }
    return true;
  }

  std::span<const std::byte> data() const noexcept { return data_; }

  /// Memory that does not hold data().
  Buffer& free_buffer() noexcept { return scratch_.data[slot_]; }
  Buffer& work() noexcept { return scratch_.data[2]; }

  /// Undoes the next filter. `chunk_bytes` is the size of the decoded chunk, if it is known, and
  /// `most` its largest.
  void undo(std::optional<uint64_t> chunk_bytes, uint64_t most) {
    const ChunkFilter& filter = filters_[left_ - 1];
    Buffer& out = free_buffer();
    const auto size = chunk_bytes ? bytes_before(*chunk_bytes) : std::nullopt;
    if (size && !is_checksum(filter.type)) {
      const uint64_t backed = most_decoded_bytes(filter.type, data_.size());
      if (*size > backed) {
        throw CorruptData(concat(name_of(filter.type), ": ", data_.size(),
                                 " stored bytes can make ", backed, " bytes, expected ", *size));
      }
      out.resize_discard(*size);
      undo_sized(filter, data_, out.span(), work());
      data_ = out.span();
      slot_ ^= 1;
    } else {
      const auto result = undo_unsized(filter, data_, most_written_bytes(most), out, work());
      const bool copied = result.data() == out.data() && !result.empty();
      data_ = result;
      if (copied) slot_ ^= 1;
    }
    --left_;
    find_next();
  }

 private:
  /// Filters beyond the bits of the mask cannot be skipped.
  bool applied(size_t index) const noexcept { return index >= 32 || (skipped_ >> index & 1U) == 0; }

  void find_next() noexcept {
    while (left_ > 0 && !applied(left_ - 1)) --left_;
  }

  /// Number of bytes that the next filter got when it wrote a chunk of `chunk_bytes`.
  std::optional<uint64_t> bytes_before(uint64_t chunk_bytes) const noexcept {
    std::optional<uint64_t> bytes = chunk_bytes;
    for (size_t index = 0; index + 1 < left_ && bytes; ++index) {
      if (applied(index)) bytes = stored_bytes(filters_[index].type, *bytes);
    }
    return bytes;
  }

  std::span<const ChunkFilter> filters_;
  uint32_t skipped_;
  std::span<const std::byte> data_;
  ChunkScratch& scratch_;
  size_t left_ = 0;  ///< filters that may still have to be undone; the last of them has to
  size_t slot_ = 0;
};

}  // namespace

std::string ChunkPipeline::text() const {
  std::string text;
  for (const ChunkFilter& filter : filters_) {
    if (!text.empty()) text += ", ";
    text += name_of(filter.type);
  }
  return text.empty() ? "uncompressed" : text;
}

uint64_t ChunkPipeline::most_decoded_bytes(uint64_t stored) const noexcept {
  uint64_t bytes = stored;
  for (size_t index = filters_.size(); index-- > 0 && bytes != kNoBound;) {
    bytes = codec::most_decoded_bytes(filters_[index].type, bytes);
  }
  return bytes;
}

void ChunkPipeline::decode(std::span<const std::byte> stored, uint32_t skipped,
                           std::span<std::byte> out, ChunkScratch& scratch) const {
  ChunkDecode chunk(filters_, skipped, stored, scratch);
  while (chunk.next() != nullptr) {
    if (chunk.is_last()) return undo_sized(*chunk.next(), chunk.data(), out, chunk.work());
    chunk.undo(out.size(), out.size());
  }
  check_size(stored.size(), out.size());
  std::copy(stored.begin(), stored.end(), out.begin());
}

void ChunkPipeline::decode_unsized(std::span<const std::byte> stored, uint32_t skipped,
                                   uint64_t most, Buffer& out, ChunkScratch& scratch) const {
  ChunkDecode chunk(filters_, skipped, stored, scratch);
  std::span<const std::byte> result = stored;
  while (chunk.next() != nullptr) {
    if (chunk.is_last()) {
      result = undo_unsized(*chunk.next(), chunk.data(), most, out, chunk.work());
      if (result.data() == out.data()) return;
      break;
    }
    chunk.undo(std::nullopt, most);
  }
  out.resize_discard(result.size());
  std::copy(result.begin(), result.end(), out.data());
}

void ChunkPipeline::decode_parts(std::span<const std::byte> stored, uint32_t skipped,
                                 uint64_t decoded_bytes, uint32_t cell_bytes, uint64_t begin,
                                 uint64_t end, ChunkScratch& scratch, const TakePiece& take) const {
  if (cell_bytes == 0 || begin > end || end > decoded_bytes || begin % cell_bytes != 0 ||
      end % cell_bytes != 0) {
    throw Internal(concat("bytes [", begin, ", ", end, ") of a chunk of ", decoded_bytes,
                          " in cells of ", cell_bytes));
  }
  if (begin == end) return;
  const WantedPart wanted{begin, end, cell_bytes, take};
  ChunkDecode chunk(filters_, skipped, stored, scratch);
  for (; chunk.next() != nullptr; chunk.undo(decoded_bytes, decoded_bytes)) {
    if (!chunk.is_last()) continue;
    const ChunkFilter& first = *chunk.next();
    if (first.type == ChunkFilterType::kBlosc) {
      const BloscChunk blosc(chunk.data());
      check_size(blosc.decoded_bytes(), decoded_bytes);
      return take_blosc(wanted, blosc, chunk.free_buffer(), chunk.work());
    }
    if (first.type == ChunkFilterType::kShuffle && first.element_bytes == cell_bytes &&
        decoded_bytes % cell_bytes == 0) {
      check_size(chunk.data().size(), decoded_bytes);
      return cell_bytes == 1 ? take_cells(wanted, 0, chunk.data())
                             : take_planes(wanted, 0, chunk.data(), chunk.work());
    }
  }
  check_size(chunk.data().size(), decoded_bytes);
  take_cells(wanted, 0, chunk.data());
}

}  // namespace penstock::codec
