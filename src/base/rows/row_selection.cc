#include <penstock/error.h>
#include <penstock/row_selection.h>

#include <algorithm>
#include <utility>

#include "base/concat.h"
#include "base/rows/row_selection_bitmap.h"

namespace penstock {
namespace {

constexpr uint64_t kWordRows = RoaringWord::kRows;

uint32_t word_of(int64_t joinid) {
  return static_cast<uint32_t>(static_cast<uint64_t>(joinid) >> 32);
}
uint32_t low_of(int64_t joinid) { return static_cast<uint32_t>(static_cast<uint64_t>(joinid)); }

RoaringPtr roaring_of_sorted(std::span<const int64_t> joinids) {
  RoaringPtr bitmap = own_roaring(roaring_bitmap_create());
  std::vector<uint32_t> rows;
  for (size_t i = 0; i < joinids.size();) {
    // Runs are common (stores keep a dataset's cells together) and cheap as ranges.
    const size_t count = std::min<size_t>(joinids.size() - i, 4096);
    const auto part = joinids.subspan(i, count);
    if (part.back() - part.front() == static_cast<int64_t>(count) - 1) {
      roaring_bitmap_add_range_closed(bitmap.get(), low_of(part.front()), low_of(part.back()));
    } else {
      rows.assign(count, 0);
      std::transform(part.begin(), part.end(), rows.begin(), low_of);
      roaring_bitmap_add_many(bitmap.get(), count, rows.data());
    }
    i += count;
  }
  return bitmap;
}

}  // namespace

RowSelection::RowSelection() {
  static const auto empty = std::make_shared<const Bitmap>();
  bitmap_ = empty;
}

RowSelection::RowSelection(std::shared_ptr<const Bitmap> bitmap) : bitmap_(std::move(bitmap)) {}

RowSelection RowSelection::range(int64_t begin, int64_t end) {
  if (begin < 0 || end < begin) {
    throw InvalidArgument(
        concat("a range of rows must be ascending and not negative: [", begin, ", ", end, ")"));
  }
  RowSelectionBuilder builder;
  auto row = static_cast<uint64_t>(begin);
  const auto stop = static_cast<uint64_t>(end);
  while (row < stop) {
    const auto word = static_cast<uint32_t>(row >> 32);
    const uint64_t low = row % kWordRows;
    if (low == 0 && stop - row >= kWordRows) {
      const uint64_t words = (stop - row) / kWordRows;
      builder.add_full(word, static_cast<uint32_t>(word + words - 1));
      row += words * kWordRows;
    } else {
      const uint64_t high = std::min(kWordRows, low + (stop - row));
      builder.add(word, own_roaring(roaring_bitmap_from_range(low, high, 1)));
      row += high - low;
    }
  }
  return RowSelection(builder.finish());
}

RowSelection RowSelection::from_sorted(std::span<const int64_t> joinids) {
  for (size_t i = 0; i < joinids.size(); ++i) {
    if (joinids[i] < 0) {
      throw InvalidArgument(
          concat("a row id must not be negative: ", joinids[i], " at position ", i));
    }
    if (i > 0 && joinids[i] <= joinids[i - 1]) {
      throw InvalidArgument(concat("row ids must be strictly ascending: ", joinids[i], " follows ",
                                   joinids[i - 1], " at position ", i));
    }
  }
  RowSelectionBuilder builder;
  for (size_t i = 0; i < joinids.size();) {
    const uint32_t word = word_of(joinids[i]);
    const auto end =
        std::partition_point(joinids.begin() + static_cast<std::ptrdiff_t>(i), joinids.end(),
                             [word](int64_t joinid) { return word_of(joinid) == word; });
    const auto stop = static_cast<size_t>(end - joinids.begin());
    builder.add(word, roaring_of_sorted(joinids.subspan(i, stop - i)));
    i = stop;
  }
  return RowSelection(builder.finish());
}

RowSelection RowSelection::from_unsorted(std::span<const int64_t> joinids) {
  if (std::is_sorted(joinids.begin(), joinids.end())) return from_sorted(joinids);
  std::vector<int64_t> sorted(joinids.begin(), joinids.end());
  std::sort(sorted.begin(), sorted.end());
  return from_sorted(sorted);
}

uint64_t RowSelection::size() const noexcept { return bitmap_->size; }

bool RowSelection::contains(int64_t joinid) const {
  if (joinid < 0) return false;
  const auto* segment = bitmap_->find_word(word_of(joinid));
  if (segment == nullptr) return false;
  return segment->word == nullptr ||
         roaring_bitmap_contains(segment->word->bitmap(), low_of(joinid));
}

bool RowSelection::intersects(int64_t begin, int64_t end) const {
  begin = std::max<int64_t>(begin, 0);
  if (end <= begin) return false;
  const uint32_t first = word_of(begin), last = word_of(end - 1);
  const auto* segment = bitmap_->find_word(first);
  if (segment != nullptr) {
    if (segment->word == nullptr) return true;
    const uint32_t stop = first == last ? low_of(end - 1) : UINT32_MAX;
    if (segment->word->intersects(low_of(begin), stop)) return true;
  }
  if (first == last) return false;
  // A segment in the whole words between is never empty.
  const size_t index = bitmap_->first_at_or_after(first + 1);
  if (index == bitmap_->segments.size() || bitmap_->segments[index].word_first > last) return false;
  const auto& next = bitmap_->segments[index];
  return next.word == nullptr || next.word_first < last ||
         next.word->intersects(0, low_of(end - 1));
}

uint64_t RowSelection::rank(int64_t joinid) const {
  if (joinid <= 0) return 0;
  const size_t index = bitmap_->first_at_or_after(word_of(joinid));
  if (index == bitmap_->segments.size()) return bitmap_->size;
  const auto& segment = bitmap_->segments[index];
  if (word_of(joinid) < segment.word_first) return segment.first_position;
  if (segment.word == nullptr) {
    return segment.first_position + static_cast<uint64_t>(joinid - segment.base());
  }
  return segment.first_position + segment.word->rank(low_of(joinid));
}

int64_t RowSelection::at(uint64_t position) const {
  if (position >= size()) {
    throw InvalidArgument(
        concat("no such position in a selection of ", size(), " rows: ", position));
  }
  const auto& segment = bitmap_->segments[bitmap_->segment_at_position(position)];
  const uint64_t within = position - segment.first_position;
  if (segment.word == nullptr) return segment.base() + static_cast<int64_t>(within);
  return segment.base() + segment.word->select(within);
}

void RowSelection::copy_range(int64_t begin, int64_t end, std::vector<int64_t>& out) const {
  begin = std::max<int64_t>(begin, 0);
  if (end <= begin) return;
  const uint64_t first = rank(begin), count = rank(end) - first;
  const auto* segment = bitmap_->find_word(word_of(begin));
  if (count > 0 && segment != nullptr && segment->word != nullptr &&
      first + count <= segment->first_position + segment->count) {
    // One word, the usual case: no need to find the first row by its position.
    segment->word->copy(low_of(begin), count, segment->base(), out);
  } else {
    copy_positions(first, count, out);
  }
}

void RowSelection::copy_positions(uint64_t first, uint64_t count, std::vector<int64_t>& out) const {
  if (first > size() || count > size() - first) {
    throw InvalidArgument(
        concat("no such positions in a selection of ", size(), " rows: ", count, " from ", first));
  }
  if (count == 0) return;
  if (out.capacity() - out.size() < count) {
    out.reserve(std::max(out.size() + count, 2 * out.capacity()));
  }
  for (size_t index = bitmap_->segment_at_position(first); count > 0; ++index) {
    const auto& segment = bitmap_->segments[index];
    const uint64_t within = first - segment.first_position;
    const uint64_t part = std::min(count, segment.count - within);
    if (segment.word == nullptr) {
      const int64_t row = segment.base() + static_cast<int64_t>(within);
      for (uint64_t i = 0; i < part; ++i) out.push_back(row + static_cast<int64_t>(i));
    } else {
      segment.word->copy(segment.word->select(within), part, segment.base(), out);
    }
    first += part;
    count -= part;
  }
}

std::vector<int64_t> RowSelection::to_vector() const {
  std::vector<int64_t> rows;
  copy_positions(0, size(), rows);
  return rows;
}

RowSelection RowSelection::take(std::span<const uint64_t> positions) const {
  for (size_t i = 0; i < positions.size(); ++i) {
    if (positions[i] >= size() || (i > 0 && positions[i] <= positions[i - 1])) {
      throw InvalidArgument(concat("positions must be strictly ascending and below ", size(), ": ",
                                   positions[i], " as number ", i));
    }
  }
  RowSelectionBuilder builder;
  std::vector<int64_t> joinids;
  std::vector<uint32_t> rows;
  for (size_t i = 0; i < positions.size();) {
    const auto& segment = bitmap_->segments[bitmap_->segment_at_position(positions[i])];
    // One word of a full segment at a time: lists only the rows that are taken.
    uint64_t end = segment.first_position + segment.count;
    uint32_t word = segment.word_first;
    if (segment.word == nullptr) {
      word += static_cast<uint32_t>((positions[i] - segment.first_position) / kWordRows);
      end = segment.first_position + (uint64_t{word - segment.word_first} + 1) * kWordRows;
    }
    const auto stop = static_cast<size_t>(
        std::lower_bound(positions.begin() + static_cast<std::ptrdiff_t>(i), positions.end(), end) -
        positions.begin());
    const auto part = positions.subspan(i, stop - i);
    rows.clear();
    if (segment.word == nullptr) {
      for (const uint64_t position : part) {
        rows.push_back(static_cast<uint32_t>(position - (end - kWordRows)));
      }
    } else {
      segment.word->take(part, segment.first_position, rows);
    }
    auto bitmap = own_roaring(roaring_bitmap_create());
    roaring_bitmap_add_many(bitmap.get(), rows.size(), rows.data());
    builder.add(word, std::move(bitmap));
    i = stop;
  }
  return RowSelection(builder.finish());
}

RowSelection RowSelection::shifted(int64_t offset) const {
  const auto words = offset / static_cast<int64_t>(kWordRows);
  if (words * static_cast<int64_t>(kWordRows) != offset) {
    throw InvalidArgument(concat("rows are moved by a multiple of 2^32: ", offset));
  }
  if (bitmap_->segments.empty()) return *this;
  const int64_t first = bitmap_->segments.front().word_first + words;
  const int64_t last = bitmap_->segments.back().word_last + words;
  if (first < 0 || last >= int64_t{1} << 31) {
    throw InvalidArgument(concat("rows would leave the range of ids: ", at(0), " to ",
                                 at(size() - 1), ", moved by ", offset));
  }
  RowSelectionBuilder builder;
  for (const auto& segment : bitmap_->segments) {
    const auto word_first = static_cast<uint32_t>(segment.word_first + words);
    if (segment.word == nullptr) {
      builder.add_full(word_first, static_cast<uint32_t>(segment.word_last + words));
    } else {
      builder.add(word_first, segment.word);
    }
  }
  return RowSelection(builder.finish());
}

size_t RowSelection::memory_bytes() const {
  size_t bytes = sizeof(*this) + sizeof(Bitmap);
  for (const auto& segment : bitmap_->segments) {
    bytes += sizeof(segment) + (segment.word ? segment.word->memory_bytes() : 0);
  }
  return bytes;
}

}  // namespace penstock
