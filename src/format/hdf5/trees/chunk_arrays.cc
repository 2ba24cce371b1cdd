#include <penstock/error.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "base/checked.h"
#include "base/concat.h"
#include "format/hdf5/trees/chunk_index.h"

// Fixed and extensible arrays, which index the chunks of arrays that cannot grow or that grow in
// one dimension. Source: HDF5 File Format Specification, VII.B and VII.C.

namespace penstock::format::hdf5 {
namespace {

constexpr uint64_t kChecksumBytes = 4;

/// Throws unless the client of an array is chunks, filtered or not.
void expect_client(ByteReader& reader, bool filtered) {
  const auto client = reader.read<uint8_t>("client of a chunk index");
  if (client != (filtered ? 1 : 0)) {
    throw CorruptData(concat("a chunk index is of client ", unsigned{client}));
  }
}

/// Takes the entries of a block that is divided into pages, each with a checksum.
class Pages {
 public:
  Pages(const File& file, ChunkEntries& entries, unsigned entry_bytes, uint64_t page_entries)
      : file_(file), entries_(entries), entry_bytes_(entry_bytes), page_entries_(page_entries) {}

  /// Page i has entries only if bit first_bit + i of `in_use` is set, the highest of a byte first.
  void take(uint64_t address, uint64_t index, uint64_t count, std::span<const std::byte> in_use,
            uint64_t first_bit, Walk& walk) {
    const uint64_t page_bytes = page_entries_ * entry_bytes_ + kChecksumBytes;
    uint64_t page = first_bit;
    for (uint64_t done = 0; done < count; done += page_entries_, ++page, address += page_bytes) {
      if (page / 8 >= in_use.size()) throw CorruptData("a chunk index has too few bits of pages");
      if ((std::to_integer<unsigned>(in_use[page / 8]) >> (7 - page % 8) & 1) == 0) continue;
      const uint64_t here = std::min(page_entries_, count - done);
      walk.count(here * entry_bytes_ + kChecksumBytes, "pages of a chunk index");
      const Buffer bytes =
          file_.read(address, here * entry_bytes_ + kChecksumBytes, "a page of a chunk index");
      expect_checksum(bytes.span(), "a page of a chunk index");
      ByteReader reader(bytes.span());
      entries_.take(reader, index + done, here, entry_bytes_);
    }
  }

 private:
  const File& file_;
  ChunkEntries& entries_;
  unsigned entry_bytes_;
  uint64_t page_entries_;
};

uint64_t power_of_two(unsigned bits) {
  if (bits >= 32) throw CorruptData(concat("a chunk index with 2^", bits, " entries in a block"));
  return uint64_t{1} << bits;
}

}  // namespace

void read_fixed_array(const File& file, uint64_t address, bool filtered, ChunkEntries& entries) {
  const uint64_t head = 4 + 1 + 1 + 1 + 1 + file.length_bytes() + file.offset_bytes() + 4;
  const Buffer header = file.read(address, head, "a chunk index");
  expect_checksum(header.span(), "a chunk index");
  ByteReader reader(header.span());
  expect_signature(reader, "FAHD");
  read_version(reader, 0, 0, "a fixed array");
  expect_client(reader, filtered);
  const auto entry_bytes = reader.read<uint8_t>("size of an entry");
  const uint64_t page_entries = power_of_two(reader.read<uint8_t>("size of a page"));
  const uint64_t count = file.read_length(reader, "number of entries");
  const uint64_t block = file.read_address(reader, "block of a chunk index");
  if (file.is_undefined(block)) return;
  const bool paged = count > page_entries;
  const uint64_t frame = 4 + 1 + 1 + file.offset_bytes();
  const uint64_t page_count = paged ? (count - 1) / page_entries + 1 : 0;
  const uint64_t bits = paged ? (page_count - 1) / 8 + 1 : 0;
  const uint64_t own = paged ? 0 : checked_mul<uint64_t>(count, entry_bytes, "a chunk index");
  const Buffer bytes = file.read(block, frame + bits + own + kChecksumBytes, "a chunk index");
  expect_checksum(bytes.span(), "a chunk index");
  ByteReader body(bytes.span());
  expect_signature(body, "FADB");
  read_version(body, 0, 0, "a fixed array");
  expect_client(body, filtered);
  body.skip(file.offset_bytes(), "a chunk index");
  const auto in_use = body.take(bits, "pages of a chunk index");
  if (paged) {
    Walk walk(file);
    Pages(file, entries, entry_bytes, page_entries)
        .take(block + bytes.size(), 0, count, in_use, 0, walk);
  } else {
    entries.take(body, 0, count, entry_bytes);
  }
}

namespace {

class ExtensibleArray {
 public:
  ExtensibleArray(const File& file, uint64_t address, bool filtered, ChunkEntries& entries)
      : file_(file), filtered_(filtered), entries_(entries), walk_(file) {
    const uint64_t head = 12 + uint64_t{6} * file.length_bytes() + file.offset_bytes() + 4;
    const Buffer header = file.read(address, head, "a chunk index");
    expect_checksum(header.span(), "a chunk index");
    ByteReader reader(header.span());
    expect_signature(reader, "EAHD");
    read_version(reader, 0, 0, "an extensible array");
    expect_client(reader, filtered);
    entry_bytes_ = reader.read<uint8_t>("size of an entry");
    most_bits_ = reader.read<uint8_t>("number of entries");
    first_entries_ = reader.read<uint8_t>("entries of the first block");
    least_entries_ = reader.read<uint8_t>("entries of a block");
    least_blocks_ = reader.read<uint8_t>("blocks of a block");
    page_entries_ = power_of_two(reader.read<uint8_t>("size of a page"));
    reader.skip(uint64_t{4} * file.length_bytes(), "statistics of a chunk index");
    count_ = file.read_length(reader, "number of entries");
    reader.skip(file.length_bytes(), "statistics of a chunk index");
    root_ = file.read_address(reader, "first block of a chunk index");
    if (most_bits_ == 0 || most_bits_ > 64 || !std::has_single_bit(least_entries_) ||
        !std::has_single_bit(least_blocks_)) {
      throw CorruptData(concat("a chunk index of ", most_bits_, " bits with blocks of ",
                               least_entries_, " entries and ", least_blocks_, " blocks"));
    }
  }

  void run() {
    if (file_.is_undefined(root_)) return;
    const auto least_bits = static_cast<unsigned>(std::countr_zero(least_entries_));
    const unsigned super_blocks = most_bits_ < least_bits ? 0 : 1 + most_bits_ - least_bits;
    // Super blocks of which the first block has the addresses of the data blocks itself.
    const auto direct =
        std::min(super_blocks, 2 * static_cast<unsigned>(std::countr_zero(least_blocks_)));
    const uint64_t direct_blocks = 2 * (least_blocks_ - 1);
    const uint64_t addresses = direct_blocks + (super_blocks - direct);
    const uint64_t length = frame(false) + first_entries_ * entry_bytes_ +
                            addresses * file_.offset_bytes() + kChecksumBytes;
    const Buffer bytes = file_.read(root_, length, "a chunk index");
    expect_checksum(bytes.span(), "a chunk index");
    ByteReader reader(bytes.span());
    open_block(reader, "EAIB", false);
    entries_.take(reader, 0, std::min<uint64_t>(first_entries_, count_), entry_bytes_);
    reader.skip((first_entries_ - std::min<uint64_t>(first_entries_, count_)) * entry_bytes_,
                "entries");
    uint64_t index = first_entries_;
    uint64_t used = 0;
    for (unsigned i = 0; i < super_blocks && index < count_; ++i) {
      const uint64_t blocks = uint64_t{1} << (i / 2);
      const uint64_t per_block = checked_mul<uint64_t>(uint64_t{1} << ((i + 1) / 2), least_entries_,
                                                       "entries of a chunk index");
      if (i < direct) {
        for (uint64_t k = 0; k < blocks; ++k, index += per_block) {
          if (++used > direct_blocks) throw CorruptData("a chunk index of too many blocks");
          read_data_block(file_.read_address(reader, "block of a chunk index"), index, per_block,
                          {}, 0);
        }
      } else {
        if (used < direct_blocks) {
          reader.skip((direct_blocks - used) * file_.offset_bytes(), "blocks of a chunk index");
          used = direct_blocks;
        }
        read_super_block(file_.read_address(reader, "block of a chunk index"), index, blocks,
                         per_block);
        index += blocks * per_block;
      }
    }
  }

 private:
  unsigned index_bytes() const { return (most_bits_ + 7) / 8; }
  uint64_t frame(bool has_index) const {
    return 4 + 1 + 1 + file_.offset_bytes() + (has_index ? index_bytes() : 0);
  }

  void open_block(ByteReader& reader, std::string_view signature, bool has_index) const {
    expect_signature(reader, signature);
    read_version(reader, 0, 0, "an extensible array");
    expect_client(reader, filtered_);
    reader.skip(file_.offset_bytes(), "a chunk index");
    if (has_index) reader.skip(index_bytes(), "a chunk index");
  }

  bool is_paged(uint64_t per_block) const { return per_block > page_entries_; }

  void read_super_block(uint64_t address, uint64_t index, uint64_t blocks, uint64_t per_block) {
    if (file_.is_undefined(address)) return;
    const uint64_t bits = is_paged(per_block) ? (per_block / page_entries_ + 7) / 8 : 0;
    const uint64_t length = frame(true) + blocks * (bits + file_.offset_bytes()) + kChecksumBytes;
    walk_.count(length, "blocks of a chunk index");
    const Buffer bytes = file_.read(address, length, "a chunk index");
    expect_checksum(bytes.span(), "a chunk index");
    ByteReader reader(bytes.span());
    open_block(reader, "EASB", true);
    // Bits of a block follow those of the block before; bytes are left over at the end.
    const auto in_use = reader.take(blocks * bits, "pages of a chunk index");
    for (uint64_t k = 0; k < blocks && index < count_; ++k, index += per_block) {
      read_data_block(file_.read_address(reader, "block of a chunk index"), index, per_block,
                      in_use, k * (per_block / page_entries_));
    }
  }

  void read_data_block(uint64_t address, uint64_t index, uint64_t per_block,
                       std::span<const std::byte> in_use, uint64_t first_bit) {
    if (file_.is_undefined(address) || index >= count_) return;
    const bool paged = is_paged(per_block);
    const uint64_t own = paged ? 0 : per_block * entry_bytes_;
    walk_.count(frame(true) + own + kChecksumBytes, "blocks of a chunk index");
    const Buffer bytes = file_.read(address, frame(true) + own + kChecksumBytes, "a chunk index");
    expect_checksum(bytes.span(), "a chunk index");
    ByteReader reader(bytes.span());
    open_block(reader, "EADB", true);
    if (paged) {
      Pages(file_, entries_, entry_bytes_, page_entries_)
          .take(address + bytes.size(), index, per_block, in_use, first_bit, walk_);
    } else {
      entries_.take(reader, index, per_block, entry_bytes_);
    }
  }

  const File& file_;
  const bool filtered_;
  ChunkEntries& entries_;
  Walk walk_;
  unsigned entry_bytes_ = 0, most_bits_ = 0;
  uint64_t first_entries_ = 0, least_entries_ = 0, least_blocks_ = 0, page_entries_ = 0;
  uint64_t count_ = 0;  ///< entries up to the last that was set
  uint64_t root_ = 0;
};

}  // namespace

void read_extensible_array(const File& file, uint64_t address, bool filtered,
                           ChunkEntries& entries) {
  ExtensibleArray(file, address, filtered, entries).run();
}

}  // namespace penstock::format::hdf5
