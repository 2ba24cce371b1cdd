#pragma once

#include <penstock/row_selection.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/rows/row_selection_word.h"

// Contents of a RowSelection: ascending, disjoint segments of the id space. The space is cut into
// words of 2^32 rows. A segment is a bitmap of one word, or full: every row of one or more words.
// (Domains of older stores end near 2^63, so a range may span 2^31 words.) Segments are canonical:
// full words are never bitmaps, and neighbouring full segments are merged.

namespace penstock {

struct RowSelection::Bitmap {
  struct Segment {
    uint32_t word_first = 0;
    uint32_t word_last = 0;       ///< inclusive; equal to word_first for a bitmap
    RoaringWordPtr word;          ///< null: every row
    uint64_t first_position = 0;  ///< number of rows in the segments before
    uint64_t count = 0;

    int64_t base() const noexcept { return static_cast<int64_t>(uint64_t{word_first} << 32); }
  };

  std::vector<Segment> segments;
  uint64_t size = 0;
  mutable std::atomic<uint64_t> fingerprint{0};  ///< 0: not computed yet

  const Segment* find_word(uint32_t word) const;        ///< null when no row has this word
  size_t first_at_or_after(uint32_t word) const;        ///< index of a segment, or segments.size()
  size_t segment_at_position(uint64_t position) const;  ///< position < size
};

/// Appends segments in ascending order and keeps them canonical.
class RowSelectionBuilder {
 public:
  void add_full(uint32_t word_first, uint32_t word_last);
  void add(uint32_t word, RoaringPtr bitmap);
  void add(uint32_t word, RoaringWordPtr bitmap);
  std::shared_ptr<const RowSelection::Bitmap> finish();

 private:
  std::shared_ptr<RowSelection::Bitmap> bitmap_ = std::make_shared<RowSelection::Bitmap>();
};

}  // namespace penstock
