#include <penstock/row_selection.h>

#include <algorithm>
#include <utility>

#include "base/hash/hash64.h"
#include "base/rows/row_selection_bitmap.h"

// Set operations: one walk over the segments of both sides, in stretches of words where neither
// side changes its kind (none, full, or one bitmap).

namespace penstock {
namespace {

constexpr uint64_t kWordsEnd = uint64_t{1} << 31;  ///< ids are int64, not negative

enum class Kind { kNone, kFull, kBitmap };

struct Side {
  Kind kind = Kind::kNone;
  RoaringWordPtr word;
};

// Walks a list of segments by word. A template because the segment's type is RowSelection's own.
template <typename Segments>
class Walk {
 public:
  explicit Walk(const Segments& segments) : segments_(segments) {}

  /// The kind at `word`, and the word (exclusive) up to which it holds. Words must ascend.
  Side at(uint64_t word, uint64_t& end) {
    while (index_ < segments_.size() && segments_[index_].word_last < word) ++index_;
    if (index_ == segments_.size()) {
      end = kWordsEnd;
      return {};
    }
    const auto& segment = segments_[index_];
    if (word < segment.word_first) {
      end = segment.word_first;
      return {};
    }
    end = uint64_t{segment.word_last} + 1;
    return {segment.word ? Kind::kBitmap : Kind::kFull, segment.word};
  }

 private:
  const Segments& segments_;
  size_t index_ = 0;
};

using RoaringOperation = roaring_bitmap_t* (*)(const roaring_bitmap_t*, const roaring_bitmap_t*);

void add_side(RowSelectionBuilder& builder, uint64_t begin, uint64_t end, const Side& side) {
  const auto first = static_cast<uint32_t>(begin);
  if (side.kind == Kind::kFull) builder.add_full(first, static_cast<uint32_t>(end - 1));
  if (side.kind == Kind::kBitmap) builder.add(first, side.word);
}

void add_complement(RowSelectionBuilder& builder, uint64_t word, const Side& side) {
  builder.add(static_cast<uint32_t>(word),
              own_roaring(roaring_bitmap_flip(side.word->bitmap(), 0, RoaringWord::kRows)));
}

void add_combined(RowSelectionBuilder& builder, uint64_t word, const Side& a, const Side& b,
                  RoaringOperation operation) {
  builder.add(static_cast<uint32_t>(word),
              own_roaring(operation(a.word->bitmap(), b.word->bitmap())));
}

template <typename Segments, typename Step>
void walk_both(const Segments& a_segments, const Segments& b_segments, Step&& step) {
  Walk a(a_segments), b(b_segments);
  for (uint64_t word = 0; word < kWordsEnd;) {
    uint64_t a_end = 0, b_end = 0;
    const Side a_side = a.at(word, a_end);
    const Side b_side = b.at(word, b_end);
    const uint64_t end = std::min(a_end, b_end);
    step(word, end, a_side, b_side);
    word = end;
  }
}

}  // namespace

RowSelection RowSelection::operator&(const RowSelection& other) const {
  RowSelectionBuilder builder;
  walk_both(bitmap_->segments, other.bitmap_->segments,
            [&](uint64_t word, uint64_t end, const Side& a, const Side& b) {
              if (a.kind == Kind::kNone || b.kind == Kind::kNone) return;
              if (a.kind == Kind::kFull) return add_side(builder, word, end, b);
              if (b.kind == Kind::kFull) return add_side(builder, word, end, a);
              add_combined(builder, word, a, b, roaring_bitmap_and);
            });
  return RowSelection(builder.finish());
}

RowSelection RowSelection::operator|(const RowSelection& other) const {
  RowSelectionBuilder builder;
  walk_both(bitmap_->segments, other.bitmap_->segments,
            [&](uint64_t word, uint64_t end, const Side& a, const Side& b) {
              if (a.kind == Kind::kNone || b.kind == Kind::kFull) {
                return add_side(builder, word, end, b);
              }
              if (b.kind == Kind::kNone || a.kind == Kind::kFull) {
                return add_side(builder, word, end, a);
              }
              add_combined(builder, word, a, b, roaring_bitmap_or);
            });
  return RowSelection(builder.finish());
}

RowSelection RowSelection::operator-(const RowSelection& other) const {
  RowSelectionBuilder builder;
  walk_both(bitmap_->segments, other.bitmap_->segments,
            [&](uint64_t word, uint64_t end, const Side& a, const Side& b) {
              if (a.kind == Kind::kNone || b.kind == Kind::kFull) return;
              if (b.kind == Kind::kNone) return add_side(builder, word, end, a);
              if (a.kind == Kind::kFull) return add_complement(builder, word, b);
              add_combined(builder, word, a, b, roaring_bitmap_andnot);
            });
  return RowSelection(builder.finish());
}

bool RowSelection::operator==(const RowSelection& other) const {
  const auto& a = bitmap_->segments;
  const auto& b = other.bitmap_->segments;
  return bitmap_->size == other.bitmap_->size &&
         std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
           if (x.word_first != y.word_first || x.word_last != y.word_last) return false;
           if (!x.word || !y.word) return x.word == y.word;
           return x.word == y.word || roaring_bitmap_equals(x.word->bitmap(), y.word->bitmap());
         });
}

uint64_t RowSelection::fingerprint() const {
  uint64_t hash = bitmap_->fingerprint.load(std::memory_order_relaxed);
  if (hash != 0) return hash;
  hash = bitmap_->size;
  for (const auto& segment : bitmap_->segments) {
    hash = hash_combine(hash, (uint64_t{segment.word_first} << 32) | segment.word_last);
    if (segment.word) hash = segment.word->hash(hash);
  }
  hash = mix64(hash + kGoldenRatio64);
  if (hash == 0) hash = 1;
  bitmap_->fingerprint.store(hash, std::memory_order_relaxed);
  return hash;
}

}  // namespace penstock
