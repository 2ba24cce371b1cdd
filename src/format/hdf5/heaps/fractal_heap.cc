#include "format/hdf5/heaps/fractal_heap.h"

#include <penstock/error.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/concat.h"
#include "format/hdf5/trees/btree_v2.h"

namespace penstock::format::hdf5 {
namespace {

unsigned log2_of(uint64_t power) { return static_cast<unsigned>(std::countr_zero(power)); }

}  // namespace

FractalHeap::FractalHeap(const File& file, uint64_t address)
    : file_(file), walk_(file), blocks_(file) {
  const unsigned lengths = file.length_bytes(), offsets = file.offset_bytes();
  const uint64_t bytes_of_header = 22 + uint64_t{12} * lengths + uint64_t{3} * offsets + 4;
  const Buffer bytes = file.read(address, bytes_of_header, "a heap");
  ByteReader reader(bytes.span());
  expect_signature(reader, "FRHP");
  read_version(reader, 0, 0, "a heap");
  id_bytes_ = reader.read<uint16_t>("size of a heap's ids");
  const auto filter_bytes = reader.read<uint16_t>("size of a heap's filters");
  if (filter_bytes != 0) throw Unsupported("a heap with filters is not read");
  expect_checksum(bytes.span(), "a heap");
  checked_blocks_ = (reader.read<uint8_t>("flags of a heap") & 0x02) != 0;
  const uint64_t most_managed = reader.read<uint32_t>("largest object of a heap");
  file.read_length(reader, "next huge id");
  huge_index_ = file.read_address(reader, "huge objects");
  file.read_length(reader, "free space");
  file.read_address(reader, "free space");
  reader.skip(uint64_t{8} * lengths, "sizes of a heap");
  width_ = reader.read<uint16_t>("width of a heap");
  first_block_bytes_ = file.read_length(reader, "first block of a heap");
  most_direct_bytes_ = file.read_length(reader, "largest block of a heap");
  const auto heap_bits = reader.read<uint16_t>("size of a heap");
  reader.skip(2, "rows of a heap");
  root_ = file.read_address(reader, "root of a heap");
  root_rows_ = reader.read<uint16_t>("rows of a heap");
  if (width_ == 0 || !std::has_single_bit(width_) || !std::has_single_bit(first_block_bytes_) ||
      !std::has_single_bit(most_direct_bytes_) || most_direct_bytes_ < first_block_bytes_ ||
      heap_bits == 0 || heap_bits > 64) {
    throw CorruptData(concat("a heap of ", heap_bits, " bits with blocks of ", first_block_bytes_,
                             " to ", most_direct_bytes_, " bytes, ", width_, " in a row"));
  }
  offset_bytes_ = (heap_bits + 7U) / 8;
  size_bytes_ = std::min((log2_of(most_direct_bytes_) + 7U) / 8, bytes_for(most_managed));
  huge_in_id_ = id_bytes_ >= size_t{1} + offsets + lengths;
}

Buffer FractalHeap::read(std::span<const std::byte> id) {
  constexpr unsigned kManaged = 0, kHuge = 1, kTiny = 2;
  ByteReader reader(id);
  const auto head = reader.read<uint8_t>("id of a heap");
  switch ((head >> 4) & 0x03) {
    case kManaged:
      return read_managed(reader);
    case kHuge:
      return read_huge(reader);
    case kTiny: {
      size_t length = (head & 0x0FU) + 1;
      if (id_bytes_ > 18) length = ((head & 0x0FU) << 8 | reader.read<uint8_t>("length")) + 1;
      const auto bytes = reader.take(length, "object in an id");
      Buffer out(length);
      std::memcpy(out.data(), bytes.data(), length);
      return out;
    }
    default:
      throw CorruptData("an object of a heap is of an unknown kind");
  }
}

Buffer FractalHeap::read_managed(ByteReader& id) {
  const uint64_t offset = read_number(id, offset_bytes_, "offset in a heap");
  const uint64_t length = read_number(id, size_bytes_, "length in a heap");
  const Block block = find_block(offset);
  const uint64_t within = offset - block.offset;
  if (within > block.length || length > block.length - within) {
    throw CorruptData(concat("an object of ", length, " bytes at offset ", offset,
                             " of a heap lies outside of its block"));
  }
  walk_.count(length, "objects of a heap");
  Buffer out(length);
  if (length != 0) std::memcpy(out.data(), read_direct(block).data() + within, length);
  return out;
}

const Buffer& FractalHeap::read_direct(const Block& block) {
  const auto held = direct_.find(block.address);
  if (held != direct_.end()) {
    if (held->second.size() != block.length) {
      throw CorruptData("a block of a heap is at two places");
    }
    return held->second;
  }
  blocks_.count(block.length, "blocks of a heap");
  Buffer bytes = file_.read(block.address, block.length, "a block of a heap");
  ByteReader reader(bytes.span());
  expect_signature(reader, "FHDB");
  read_version(reader, 0, 0, "a block of a heap");
  file_.read_address(reader, "address of a heap");
  const uint64_t offset = read_number(reader, offset_bytes_, "offset of a block of a heap");
  if (offset != block.offset) {
    throw CorruptData(
        concat("the block of a heap at offset ", block.offset, " says that it is at ", offset));
  }
  if (checked_blocks_) {
    // The checksum is of the whole block, with zeros in its own place.
    const size_t at = bytes.size() - reader.remaining();
    const auto stored = reader.read<uint32_t>("checksum of a block of a heap");
    std::memset(bytes.data() + at, 0, sizeof(stored));
    expect_checksum(std::as_const(bytes).span(), stored, "a block of a heap");
  }
  return direct_.emplace(block.address, std::move(bytes)).first->second;
}

Buffer FractalHeap::read_huge(ByteReader& id) {
  File::Place place;
  if (huge_in_id_) {
    place.address = file_.read_address(id, "address of a huge object");
    place.length = file_.read_length(id, "size of a huge object");
  } else {
    if (huge_.empty()) {
      const size_t least = file_.offset_bytes() + size_t{2} * file_.length_bytes();
      walk_btree_v2(file_, huge_index_, BTree2Type::kHugeObjects, least, [&](ByteReader& record) {
        File::Place found;
        found.address = file_.read_address(record, "address of a huge object");
        found.length = file_.read_length(record, "size of a huge object");
        huge_[file_.read_length(record, "id of a huge object")] = found;
      });
    }
    const auto wanted = read_number(id, static_cast<unsigned>(std::min<size_t>(id_bytes_ - 1, 8)),
                                    "id of a huge object");
    const auto found = huge_.find(wanted);
    if (found == huge_.end()) throw CorruptData(concat("a heap has no huge object ", wanted));
    place = found->second;
  }
  walk_.count(place.length, "objects of a heap");
  return file_.read(place.address, place.length, "an object of a heap");
}

/// Bytes of a block of a row: the first two rows have blocks of one size, each further one twice
/// the size before.
uint64_t FractalHeap::row_bytes(uint64_t row) const {
  const uint64_t shift = row == 0 ? 0 : row - 1;
  if (shift >= 64 - static_cast<uint64_t>(std::bit_width(first_block_bytes_))) {
    throw CorruptData(concat("a heap of more than ", row, " rows"));
  }
  return first_block_bytes_ << shift;
}

FractalHeap::Block FractalHeap::find_block(uint64_t offset) {
  if (root_rows_ == 0) return {root_, 0, first_block_bytes_};
  return find_below(root_, 0, root_rows_, offset);
}

FractalHeap::Block FractalHeap::find_below(uint64_t address, uint64_t base, uint64_t rows,
                                           uint64_t offset) {
  const uint64_t direct_rows = log2_of(most_direct_bytes_) - log2_of(first_block_bytes_) + 2;
  const uint64_t head = 5 + file_.offset_bytes() + offset_bytes_;
  const auto [held, is_new] = indirect_.try_emplace(address);
  if (is_new) {
    held->second =
        file_.read(address, head + rows * width_ * file_.offset_bytes() + 4, "a block of a heap");
  }
  const Buffer& bytes = held->second;
  if (bytes.size() != head + rows * width_ * file_.offset_bytes() + 4) {
    throw CorruptData("a block of a heap is at two places");
  }
  if (is_new) expect_checksum(bytes.span(), "a block of a heap");
  ByteReader reader(bytes.span());
  expect_signature(reader, "FHIB");
  reader.skip(head - 4, "a block of a heap");
  uint64_t begin = base;
  for (uint64_t row = 0; row < rows; ++row) {
    const uint64_t length = row_bytes(row);
    for (uint64_t column = 0; column < width_; ++column) {
      const uint64_t child = file_.read_address(reader, "child of a heap's block");
      if (offset - begin < length) {
        if (file_.is_undefined(child)) {
          throw CorruptData(concat("offset ", offset, " of a heap lies in no block"));
        }
        if (row < direct_rows) return {child, begin, length};
        const uint64_t first_row = log2_of(first_block_bytes_) + log2_of(width_);
        if (log2_of(length) < first_row) throw CorruptData("a heap of too wide rows");
        const uint64_t child_rows = log2_of(length) - first_row + 1;  // fewer than `row`
        return find_below(child, begin, child_rows, offset);
      }
      if (__builtin_add_overflow(begin, length, &begin)) break;
    }
  }
  throw CorruptData(concat("offset ", offset, " lies outside of a heap"));
}

}  // namespace penstock::format::hdf5
