#include <penstock/error.h>
#include <penstock/row_selection.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "base/byte_reader.h"
#include "base/rows/row_selection_bitmap.h"

// The bytes of a RowSelection, little-endian:
//
//   magic "psrows\x01\n", u64 count of segments, then for each
//   u32 first word, u32 last word, u64 length, and `length` bytes of a bitmap (none: every row)
//
// Bitmaps are in the portable format (the RoaringFormatSpec repository, README). CRoaring's own
// "safe" reader checks lengths but trusts the containers. If a run ends past 2^16 or a cardinality
// is wrong, CRoaring later overruns its buffers. So everything is checked here first.

namespace penstock {
namespace {

constexpr std::array<char, 8> kMagic = {'p', 's', 'r', 'o', 'w', 's', 1, '\n'};
constexpr uint32_t kCookieNoRuns = 12346;
constexpr uint32_t kCookieRuns = 12347;
constexpr uint32_t kOffsetThreshold = 4;  ///< with runs, offsets follow from 4 containers on
constexpr uint32_t kMaxArrayRows = 4096;

template <typename T>
void append(std::string& out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

[[noreturn]] void corrupt(const std::string& what) {
  throw CorruptData("not the bytes of a row selection: " + what);
}

void check_runs(ByteReader& reader, uint32_t cardinality) {
  const uint32_t count = reader.read<uint16_t>("run count");
  reader.expect_items(count, 4, "runs");
  int64_t previous_end = -2;
  uint64_t rows = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const int64_t start = reader.read<uint16_t>("run start");
    const int64_t end = start + reader.read<uint16_t>("run length");
    if (end > 0xffff) corrupt("a run that ends at " + std::to_string(end));
    if (start <= previous_end + 1) corrupt("runs that touch at " + std::to_string(start));
    rows += static_cast<uint64_t>(end - start) + 1;
    previous_end = end;
  }
  if (rows != cardinality) {
    corrupt("runs of " + std::to_string(rows) + " rows, " + std::to_string(cardinality) + " said");
  }
}

void check_array(ByteReader& reader, uint32_t cardinality) {
  reader.expect_items(cardinality, 2, "array of rows");
  int32_t previous = -1;
  for (uint32_t i = 0; i < cardinality; ++i) {
    const int32_t row = reader.read<uint16_t>("row");
    if (row <= previous) corrupt("row " + std::to_string(row) + " out of order");
    previous = row;
  }
}

void check_bitset(ByteReader& reader, uint32_t cardinality) {
  reader.expect_items(1024, 8, "bitset");
  uint64_t rows = 0;
  for (int i = 0; i < 1024; ++i) {
    rows += static_cast<uint64_t>(__builtin_popcountll(reader.read<uint64_t>("bitset")));
  }
  if (rows != cardinality) {
    corrupt("a bitset of " + std::to_string(rows) + " rows, " + std::to_string(cardinality) +
            " said");
  }
}

void check_bitmap(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  const auto cookie = reader.read<uint32_t>("cookie");
  uint32_t containers = 0;
  std::span<const std::byte> run_flags;
  if ((cookie & 0xffff) == kCookieRuns) {
    containers = (cookie >> 16) + 1;
    run_flags = reader.take((containers + 7) / 8, "run flags");
  } else if (cookie == kCookieNoRuns) {
    containers = reader.read<uint32_t>("container count");
    if (containers > 65536) corrupt(std::to_string(containers) + " containers");
  } else {
    corrupt("cookie " + std::to_string(cookie));
  }
  if (containers == 0) corrupt("an empty bitmap");

  std::vector<uint32_t> cardinalities;
  reader.expect_items(containers, 4, "container keys");
  int32_t previous = -1;
  for (uint32_t i = 0; i < containers; ++i) {
    const int32_t key = reader.read<uint16_t>("key");
    if (key <= previous) corrupt("key " + std::to_string(key) + " out of order");
    previous = key;
    cardinalities.push_back(uint32_t{reader.read<uint16_t>("cardinality")} + 1);
  }
  const bool has_offsets = run_flags.empty() || containers >= kOffsetThreshold;
  const auto offsets = reader.take(has_offsets ? containers * 4 : 0, "offsets");
  for (uint32_t i = 0; i < containers; ++i) {
    if (has_offsets) {
      uint32_t offset;
      std::memcpy(&offset, offsets.data() + i * 4, 4);
      if (offset != reader.offset()) corrupt("container offset " + std::to_string(offset));
    }
    if (!run_flags.empty() && (static_cast<uint32_t>(run_flags[i / 8]) >> (i % 8) & 1u) != 0) {
      check_runs(reader, cardinalities[i]);
    } else if (cardinalities[i] <= kMaxArrayRows) {
      check_array(reader, cardinalities[i]);
    } else {
      check_bitset(reader, cardinalities[i]);
    }
  }
  if (!reader.empty()) corrupt(std::to_string(reader.remaining()) + " bytes after a bitmap");
}

}  // namespace

std::string RowSelection::serialize() const {
  std::string out(kMagic.data(), kMagic.size());
  append<uint64_t>(out, bitmap_->segments.size());
  for (const auto& segment : bitmap_->segments) {
    append(out, segment.word_first);
    append(out, segment.word_last);
    const size_t length =
        segment.word ? roaring_bitmap_portable_size_in_bytes(segment.word->bitmap()) : 0;
    append<uint64_t>(out, length);
    if (length == 0) continue;
    const size_t begin = out.size();
    out.resize(begin + length);
    roaring_bitmap_portable_serialize(segment.word->bitmap(), out.data() + begin);
  }
  return out;
}

RowSelection RowSelection::deserialize(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  if (reader.take_string(kMagic.size(), "magic") !=
      std::string_view(kMagic.data(), kMagic.size())) {
    corrupt("another magic");
  }
  const auto count = reader.read<uint64_t>("segment count");
  reader.expect_items(count, 16, "segments");
  RowSelectionBuilder builder;
  int64_t previous = -1;
  for (uint64_t i = 0; i < count; ++i) {
    const auto first = reader.read<uint32_t>("first word");
    const auto last = reader.read<uint32_t>("last word");
    if (first <= previous || last < first || last > 0x7fffffff) {
      corrupt("words " + std::to_string(first) + " to " + std::to_string(last) + " after " +
              std::to_string(previous));
    }
    previous = last;
    const auto length = reader.read<uint64_t>("bitmap length");
    if (length == 0) {
      builder.add_full(first, last);
      continue;
    }
    if (first != last) corrupt("a bitmap of several words");
    const auto bitmap = reader.take(length, "bitmap");
    check_bitmap(bitmap);
    builder.add(first, own_roaring(roaring_bitmap_portable_deserialize_safe(
                           reinterpret_cast<const char*>(bitmap.data()), bitmap.size())));
  }
  if (!reader.empty()) corrupt(std::to_string(reader.remaining()) + " bytes at the end");
  return RowSelection(builder.finish());
}

}  // namespace penstock
