#include "base/rows/row_selection_word.h"

#include <penstock/error.h>

#include <algorithm>
#include <array>
#include <new>

#include "base/concat.h"
#include "base/hash/hash64.h"

namespace penstock {
namespace {

constexpr uint64_t kBlockRows = uint64_t{1} << 16;

// The iterator is a plain struct that CRoaring fills; none of these calls allocates.
roaring_uint32_iterator_t iterator_at(const roaring_bitmap_t* bitmap, uint32_t row) {
  roaring_uint32_iterator_t it;
  roaring_init_iterator(bitmap, &it);
  roaring_move_uint32_iterator_equalorlarger(&it, row);
  return it;
}

}  // namespace

RoaringPtr own_roaring(roaring_bitmap_t* bitmap) {
  if (bitmap == nullptr) throw std::bad_alloc();
  return RoaringPtr(bitmap);
}

RoaringWord::RoaringWord(RoaringPtr bitmap) : bitmap_(std::move(bitmap)) {
  roaring_bitmap_run_optimize(bitmap_.get());
  roaring_uint32_iterator_t it;
  roaring_init_iterator(bitmap_.get(), &it);
  while (it.has_value) {
    const uint32_t first_row = it.current_value & ~uint32_t{0xffff};
    blocks_.push_back({size_, first_row});
    size_ += roaring_bitmap_range_cardinality(bitmap_.get(), first_row, first_row + kBlockRows);
    if (first_row + kBlockRows == kRows) break;
    roaring_move_uint32_iterator_equalorlarger(&it, static_cast<uint32_t>(first_row + kBlockRows));
  }
  blocks_.shrink_to_fit();
}

size_t RoaringWord::block_at_position(uint64_t position) const {
  const auto after =
      std::upper_bound(blocks_.begin(), blocks_.end(), position,
                       [](uint64_t p, const Block& block) { return p < block.first_position; });
  return static_cast<size_t>(after - blocks_.begin()) - 1;
}

uint64_t RoaringWord::block_size(size_t index) const {
  const uint64_t end = index + 1 < blocks_.size() ? blocks_[index + 1].first_position : size_;
  return end - blocks_[index].first_position;
}

uint64_t RoaringWord::rank(uint32_t low) const {
  const auto after =
      std::upper_bound(blocks_.begin(), blocks_.end(), low,
                       [](uint32_t row, const Block& block) { return row < block.first_row; });
  if (after == blocks_.begin()) return 0;
  const size_t index = static_cast<size_t>(after - blocks_.begin()) - 1;
  const Block& block = blocks_[index];
  if (low - block.first_row >= kBlockRows) return block.first_position + block_size(index);
  return block.first_position +
         roaring_bitmap_range_cardinality(bitmap_.get(), block.first_row, low);
}

uint32_t RoaringWord::select(uint64_t position) const {
  const size_t index = block_at_position(position);
  const Block& block = blocks_[index];
  const uint64_t within = position - block.first_position;
  if (block_size(index) == kBlockRows) return block.first_row + static_cast<uint32_t>(within);
  // Searches the row r of the set with `within` rows before it. Counting costs a pass over the
  // block up to r, so steps are guessed by proportion, and halved after poor guesses.
  uint64_t low = block.first_row,
           high = low + kBlockRows;  // rows before `low` are `below` or fewer
  uint64_t below = 0, above = block_size(index);
  for (bool halve = false; high - low > 1; halve = !halve) {
    const uint64_t guess =
        halve ? (high - low) / 2 : (high - low) * (within - below) / (above - below);
    const uint64_t middle = low + std::clamp<uint64_t>(guess, 1, high - low - 1);
    const uint64_t before =
        roaring_bitmap_range_cardinality(bitmap_.get(), block.first_row, middle);
    if (before <= within) {
      low = middle;
      below = before;
    } else {
      high = middle;
      above = before;
    }
  }
  return static_cast<uint32_t>(low);
}

bool RoaringWord::intersects(uint32_t first, uint32_t last) const {
  const auto it = iterator_at(bitmap_.get(), first);
  return it.has_value && it.current_value <= last;
}

void RoaringWord::copy(uint32_t low, uint64_t count, int64_t base,
                       std::vector<int64_t>& out) const {
  auto it = iterator_at(bitmap_.get(), low);
  std::array<uint32_t, 2048> rows;
  while (count > 0) {
    const auto wanted = static_cast<uint32_t>(std::min<uint64_t>(count, rows.size()));
    const uint32_t got = roaring_read_uint32_iterator(&it, rows.data(), wanted);
    if (got == 0) throw Internal(concat("row bitmap ends early: ", count, " rows left"));
    const size_t end = out.size();
    out.resize(end + got);
    for (uint32_t i = 0; i < got; ++i) out[end + i] = base + rows[i];
    count -= got;
  }
}

void RoaringWord::read_block(size_t index, std::vector<uint32_t>& rows) const {
  rows.resize(static_cast<size_t>(block_size(index)));
  auto it = iterator_at(bitmap_.get(), blocks_[index].first_row);
  roaring_read_uint32_iterator(&it, rows.data(), static_cast<uint32_t>(rows.size()));
}

void RoaringWord::take(std::span<const uint64_t> positions, uint64_t position_base,
                       std::vector<uint32_t>& rows) const {
  std::vector<uint32_t> block_rows;
  size_t index = blocks_.size();
  for (const uint64_t global : positions) {
    const uint64_t position = global - position_base;
    if (index == blocks_.size() || position >= blocks_[index].first_position + block_size(index)) {
      index = block_at_position(position);
      read_block(index, block_rows);
    }
    rows.push_back(block_rows[static_cast<size_t>(position - blocks_[index].first_position)]);
  }
}

uint64_t RoaringWord::hash(uint64_t seed) const {
  uint64_t hash = seed;
  std::vector<uint32_t> rows;
  for (size_t index = 0; index < blocks_.size(); ++index) {
    hash = hash_combine(hash, blocks_[index].first_row);
    hash = hash_combine(hash, block_size(index));
    if (block_size(index) == kBlockRows) continue;
    read_block(index, rows);
    // A sum of mixed rows, not a chain: four times as fast, and the order does not matter.
    uint64_t sum = 0;
    for (const uint32_t row : rows) sum += mix64(row + kGoldenRatio64);
    hash = hash_combine(hash, sum);
  }
  return hash;
}

size_t RoaringWord::memory_bytes() const {
  return sizeof(*this) + roaring_bitmap_portable_size_in_bytes(bitmap_.get()) +
         blocks_.capacity() * sizeof(Block);
}

}  // namespace penstock
