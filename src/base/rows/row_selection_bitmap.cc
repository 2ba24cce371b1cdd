#include "base/rows/row_selection_bitmap.h"

#include <algorithm>
#include <utility>

namespace penstock {

size_t RowSelection::Bitmap::first_at_or_after(uint32_t word) const {
  const auto it =
      std::partition_point(segments.begin(), segments.end(),
                           [word](const Segment& segment) { return segment.word_last < word; });
  return static_cast<size_t>(it - segments.begin());
}

const RowSelection::Bitmap::Segment* RowSelection::Bitmap::find_word(uint32_t word) const {
  const size_t index = first_at_or_after(word);
  if (index == segments.size() || segments[index].word_first > word) return nullptr;
  return &segments[index];
}

size_t RowSelection::Bitmap::segment_at_position(uint64_t position) const {
  const auto after = std::partition_point(
      segments.begin(), segments.end(),
      [position](const Segment& segment) { return segment.first_position <= position; });
  return static_cast<size_t>(after - segments.begin()) - 1;
}

void RowSelectionBuilder::add_full(uint32_t word_first, uint32_t word_last) {
  auto& segments = bitmap_->segments;
  const uint64_t count = (uint64_t{word_last} - word_first + 1) * RoaringWord::kRows;
  if (!segments.empty() && !segments.back().word && segments.back().word_last + 1 == word_first) {
    segments.back().word_last = word_last;
    segments.back().count += count;
  } else {
    segments.push_back({word_first, word_last, nullptr, bitmap_->size, count});
  }
  bitmap_->size += count;
}

void RowSelectionBuilder::add(uint32_t word, RoaringPtr bitmap) {
  if (roaring_bitmap_is_empty(bitmap.get())) return;
  add(word, std::make_shared<const RoaringWord>(std::move(bitmap)));
}

void RowSelectionBuilder::add(uint32_t word, RoaringWordPtr bitmap) {
  const uint64_t count = bitmap->size();
  if (count == RoaringWord::kRows) return add_full(word, word);
  bitmap_->segments.push_back({word, word, std::move(bitmap), bitmap_->size, count});
  bitmap_->size += count;
}

std::shared_ptr<const RowSelection::Bitmap> RowSelectionBuilder::finish() {
  bitmap_->segments.shrink_to_fit();
  return std::move(bitmap_);
}

}  // namespace penstock
