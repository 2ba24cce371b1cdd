#include "codec/zstd/run_decoder.h"

#include <algorithm>

namespace penstock::codec::zstd {
namespace {

constexpr uint32_t kMagic = 0xFD2FB528;
constexpr size_t kLeastFrame = 9;  // with an empty block
constexpr size_t kBlockHead = 3;
constexpr size_t kMostBlock = size_t{128} << 10;
/// Most bytes of a match that are added one by one; with more the cells are not runs.
constexpr size_t kMostSingle = 256;

uint32_t load24(const uint8_t* from) noexcept {
  return from[0] | uint32_t{from[1]} << 8 | uint32_t{from[2]} << 16;
}

/// Bytes of the frame's head, or 0 for a refused frame. (Section 3.1.1.1.)
size_t read_frame_head(std::span<const uint8_t> in, uint64_t expected,
                       size_t& most_block) noexcept {
  if ((load24(in.data()) | uint32_t{in[3]} << 24) != kMagic) return 0;
  const unsigned flags = in[4];
  const bool single = (flags & 0x20) != 0;
  if ((flags & 0x0F) != 0) return 0;  // a reserved bit, a checksum, a dictionary
  size_t at = 5;
  uint64_t window = expected;
  if (!single) {
    const unsigned exponent = in[at] >> 3;
    if (exponent > 17) return 0;  // windows of 256 MiB and more
    window = uint64_t{1} << (10 + exponent);
    window += window / 8 * (in[at] & 7U);
    ++at;
  }
  const unsigned size_flag = flags >> 6;
  const size_t size_bytes = size_flag == 0 ? (single ? 1 : 0) : size_t{1} << size_flag;
  if (in.size() < at + size_bytes) return 0;
  if (size_bytes != 0) {
    uint64_t size = 0;
    for (size_t i = 0; i < size_bytes; ++i) size |= uint64_t{in[at + i]} << (8 * i);
    if (size_bytes == 2) size += 256;
    if (size != expected) return 0;
  }
  most_block = static_cast<size_t>(std::min<uint64_t>(window, kMostBlock));
  return at + size_bytes;
}

}  // namespace

/// State of the decoded bytes: the position, and the last 8 bytes, each at its place in a cell.
class RunDecoder::Cells {
 public:
  Cells(uint64_t bytes, std::vector<CellRun>& runs)
      : bytes_(bytes), runs_(runs), first_run_(runs.size()) {}

  uint64_t left() const noexcept { return bytes_ - at_; }

  void add(uint8_t byte) {
    const auto shift = static_cast<unsigned>(at_ & 7) * 8;
    cell_ = (cell_ & ~(uint64_t{0xFF} << shift)) | uint64_t{byte} << shift;
    if ((++at_ & 7) == 0) end_cells(1);
  }

  /// Appends `count` bytes, each equal to the one `offset` before it. False if refused.
  bool repeat(uint64_t offset, uint64_t count) {
    if (offset == 0 || offset > 8 || offset > at_) return false;
    if (offset < 8) {
      // After 8 bytes, a period that divides 8 is a period of 8.
      const uint64_t single = 8 % offset == 0 ? std::min<uint64_t>(count, 8) : count;
      if (single > kMostSingle) return false;
      for (uint64_t i = 0; i < single; ++i) {
        add(static_cast<uint8_t>(cell_ >> (8 * ((at_ - offset) & 7))));
      }
      count -= single;
    }
    const uint64_t cells = ((at_ & 7) + count) / 8;
    at_ += count;
    if (cells != 0) end_cells(cells);
    return true;
  }

 private:
  void end_cells(uint64_t count) {
    if (runs_.size() > first_run_ && runs_.back().value == cell_) {
      runs_.back().count += count;
    } else {
      runs_.push_back({cell_, count});
    }
  }

  const uint64_t bytes_;
  std::vector<CellRun>& runs_;
  const size_t first_run_;
  uint64_t at_ = 0;
  uint64_t cell_ = 0;
};

RunDecoder::RunDecoder() : literals_(kMostBlock) {}

bool RunDecoder::decode(std::span<const std::byte> frame, uint64_t bytes,
                        std::vector<CellRun>& runs) {
  const std::span in(reinterpret_cast<const uint8_t*>(frame.data()), frame.size());
  if (in.size() < kLeastFrame || bytes % 8 != 0) return false;
  size_t most_block = 0;
  const size_t head = read_frame_head(in, bytes, most_block);
  if (head == 0) return false;
  recent_ = {};
  tables_.forget();
  huffman_.log = 0;
  const size_t before = runs.size();
  Cells cells(bytes, runs);
  if (decode_blocks(in.subspan(head), most_block, cells) && cells.left() == 0) return true;
  runs.resize(before);
  return false;
}

bool RunDecoder::decode_blocks(std::span<const uint8_t> in, size_t most_block, Cells& cells) {
  for (bool last = false; !last;) {
    if (in.size() < kBlockHead) return false;
    const uint32_t head = load24(in.data());
    in = in.subspan(kBlockHead);
    last = (head & 1) != 0;
    const unsigned kind = (head >> 1) & 3;
    const size_t size = head >> 3;
    const size_t stored = kind == 1 ? 1 : size;
    if (kind == 3 || size > most_block || stored > in.size()) return false;
    const auto block = in.first(stored);
    in = in.subspan(stored);
    if (kind == 2) {
      if (!decode_block(block, most_block, cells)) return false;
      continue;
    }
    if (size > cells.left()) return false;
    if (kind == 0) {
      if (size > kMostSingle) return false;
      for (const uint8_t byte : block) cells.add(byte);
    } else if (size != 0) {
      cells.add(block[0]);
      if (size > 1 && !cells.repeat(1, size - 1)) return false;
    }
  }
  return in.empty();
}

bool RunDecoder::decode_block(std::span<const uint8_t> block, size_t most_block, Cells& cells) {
  const uint64_t end = cells.left() - std::min<uint64_t>(cells.left(), most_block);
  if (!read_literals(block)) return false;
  std::span<const uint8_t> literals = literals_;
  const auto add_literals = [&](size_t count) {
    if (count > literals.size() || count > kMostSingle || count > cells.left() - end) return false;
    for (const uint8_t byte : literals.first(count)) cells.add(byte);
    literals = literals.subspan(count);
    return true;
  };
  size_t count = 0;
  if (!read_sequence_head(block, tables_, count)) return false;
  if (count != 0) {
    SequenceReader reader;
    if (!reader.open(block, tables_)) return false;
    for (Sequence sequence; count != 0; --count) {
      if (!(count == 1 ? reader.read_last(sequence) : reader.read(sequence))) return false;
      const uint32_t offset = recent_.take(sequence.offset, sequence.literals);
      if (!add_literals(sequence.literals) || sequence.match > cells.left() - end ||
          !cells.repeat(offset, sequence.match)) {
        return false;
      }
    }
  }
  return add_literals(literals.size());
}

// Afterwards `block` is the rest after the literals. (Section 3.1.1.3.1.)
bool RunDecoder::read_literals(std::span<const uint8_t>& block) noexcept {
  if (block.size() < 3) return false;
  const unsigned kind = block[0] & 3U;
  const unsigned form = (block[0] >> 2) & 3U;
  if (kind < 2) {
    const size_t head = (form & 1) == 0 ? 1 : form == 1 ? 2 : 3;
    const size_t size = (load24(block.data()) & ((1U << (8 * head)) - 1)) >> (head == 1 ? 3 : 4);
    const size_t stored = kind == 0 ? size : 1;
    if (size > kMostBlock || stored > block.size() - head) return false;
    const auto from = block.subspan(head, stored);
    if (kind == 0) {
      literals_.assign(from.begin(), from.end());
    } else {
      literals_.assign(size, from[0]);
    }
    block = block.subspan(head + stored);
    return true;
  }
  const size_t head = form < 2 ? 3 : form + 2;
  const unsigned width = form < 2 ? 10 : form == 2 ? 14 : 18;
  if (block.size() < head) return false;
  uint64_t sizes = 0;
  for (size_t i = 0; i < head; ++i) sizes |= uint64_t{block[i]} << (8 * i);
  const uint64_t mask = (uint64_t{1} << width) - 1;
  const auto size = static_cast<size_t>((sizes >> 4) & mask);
  const auto stored = static_cast<size_t>((sizes >> (4 + width)) & mask);
  if (size == 0 || size > kMostBlock || stored > block.size() - head) return false;
  auto coded = block.subspan(head, stored);
  if (kind == 2) {
    const size_t taken = read_huffman_table(coded, huffman_);
    if (taken == 0) return false;
    coded = coded.subspan(taken);
  } else if (huffman_.log == 0) {
    return false;
  }
  literals_.resize(size);
  if (!decode_huffman(coded, form != 0, huffman_, literals_)) return false;
  block = block.subspan(head + stored);
  return true;
}

}  // namespace penstock::codec::zstd
