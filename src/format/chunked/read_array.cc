#include "format/chunked/read_array.h"

#include <penstock/error.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/checked.h"
#include "base/concat.h"
#include "codec/vlen_utf8.h"
#include "format/chunked/chunk_range.h"
#include "format/chunked/fixed_strings.h"
#include "format/chunked/swap_bytes.h"

namespace penstock::format::chunked {
namespace {

/// A range of strings may always take so many bytes in memory, so many a stored byte and so many a
/// cell. Repeated strings compress a thousandfold, so the stored bytes alone are no bound.
constexpr uint64_t kMostStringBytes = uint64_t{256} << 20;
constexpr uint64_t kStringBytesPerStored = 64;
constexpr uint64_t kStringBytesPerCell = 64;

/// Offsets and characters of one chunk's part of the range.
struct ChunkStrings {
  std::vector<std::byte> characters;
  std::vector<uint64_t> ends;
};

/// Bytes of the numbers of which a cell consists.
size_t number_bytes(const ArrayInfo& info) {
  switch (info.strings) {
    case StringForm::kFixedUtf32:
      return 4;
    case StringForm::kFixedBytes:
      return 1;
    default:
      return info.cell_bytes;
  }
}

void fill(std::span<std::byte> out, std::span<const std::byte> value) {
  if (std::all_of(value.begin(), value.end(), [](std::byte b) { return b == std::byte{0}; })) {
    if (!out.empty()) std::memset(out.data(), 0, out.size());
    return;
  }
  for (size_t i = 0; i + value.size() <= out.size(); i += value.size()) {
    std::memcpy(out.data() + i, value.data(), value.size());
  }
}

/// Decodes the part of a chunk to its cells.
void decode_part(const ArrayInfo& info, const ChunkPart& part, std::span<std::byte> out,
                 codec::ChunkScratch& scratch) {
  if (part.absent) return fill(out, info.fill_value);
  if (part.in_place) {
    // The cells were read into `out`.
  } else if (part.plain) {
    if (!out.empty()) std::memcpy(out.data(), part.stored.data(), out.size());
  } else if (const uint64_t decoded = info.decoded_bytes(); out.size() == decoded) {
    info.pipeline.decode(part.stored, part.skipped_filters, out, scratch);
  } else {
    Buffer chunk(decoded);
    info.pipeline.decode(part.stored, part.skipped_filters, chunk.span(), scratch);
    const uint64_t skipped = (part.begin - part.chunk_begin) * info.cell_bytes;
    std::memcpy(out.data(), chunk.data() + skipped, out.size());
  }
  if (info.big_endian) swap_numbers(out, number_bytes(info));
}

/// Decodes the strings of a part of a chunk. `left` bytes may be decoded of the range.
void decode_strings(const ArrayInfo& info, const ChunkPart& part, std::atomic<uint64_t>& left,
                    ChunkStrings& strings, codec::ChunkScratch& scratch) {
  const uint64_t count = part.end - part.begin;
  if (part.absent) {
    const auto text = std::as_bytes(std::span(info.fill_text));
    for (uint64_t i = 0; i < count; ++i) {
      strings.characters.insert(strings.characters.end(), text.begin(), text.end());
      strings.ends.push_back(strings.characters.size());
    }
    return;
  }
  Buffer chunk;
  info.pipeline.decode_unsized(part.stored, part.skipped_filters, left, chunk, scratch);
  if (left.fetch_sub(chunk.size()) < chunk.size()) {  // by several threads
    throw CorruptData("the strings of a range take more memory than any that are stored so");
  }
  codec::decode_vlen_utf8(chunk.span(), info.chunk_shape[0], strings.characters, strings.ends);
  // Strings of the chunk that lie outside of the range.
  const uint64_t before = part.begin - part.chunk_begin;
  const uint64_t cut = before == 0 ? 0 : strings.ends[before - 1];
  strings.ends.erase(strings.ends.begin(), strings.ends.begin() + static_cast<int64_t>(before));
  strings.ends.resize(count);
  strings.characters.resize(strings.ends.empty() ? cut : strings.ends.back());
  strings.characters.erase(strings.characters.begin(),
                           strings.characters.begin() + static_cast<int64_t>(cut));
  for (uint64_t& end : strings.ends) end -= cut;
}

Strings read_vlen(const Array& array, uint64_t begin, uint64_t end, unsigned threads) {
  const ArrayInfo& info = array.info();
  array.expect_unchanged();
  const ChunkRange range(array, begin, end);
  range.expect_backed(sizeof(uint64_t) + info.fill_text.size());
  std::atomic<uint64_t> left = kMostStringBytes + kStringBytesPerStored * range.stored_bytes() +
                               kStringBytesPerCell * (end - begin);
  Strings result;
  result.offsets.push_back(0);
  std::vector<ChunkStrings> parts(range.parts());
  ChunkRange::Steps steps;
  steps.decode = [&](const ChunkPart& part, codec::ChunkScratch& scratch) {
    decode_strings(info, part, left, parts[part.number], scratch);
  };
  steps.after_window = [&](size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) {
      const uint64_t base = result.characters.size();
      result.characters.insert(result.characters.end(), parts[i].characters.begin(),
                               parts[i].characters.end());
      for (const uint64_t string_end : parts[i].ends) result.offsets.push_back(base + string_end);
      parts[i] = {};
    }
  };
  range.for_each(threads, steps);
  return result;
}

}  // namespace

Buffer read_values(const Array& array, uint64_t begin, uint64_t end, unsigned threads) {
  const ArrayInfo& info = array.info();
  if (info.cell_bytes == 0) {
    throw InvalidArgument("strings of variable length have no values of fixed size, in " +
                          info.path);
  }
  array.expect_unchanged();
  const ChunkRange range(array, begin, end);
  range.expect_backed(info.cell_bytes);
  Buffer values(with_place(
      [&] { return checked_mul<uint64_t>(end - begin, info.cell_bytes, "the size of a range"); },
      [&] { return info.path; }));
  ChunkRange::Steps steps;
  steps.room = [&](const ChunkPart& part) {
    return values.span().subspan((part.begin - begin) * info.cell_bytes,
                                 (part.end - part.begin) * info.cell_bytes);
  };
  steps.decode = [&](const ChunkPart& part, codec::ChunkScratch& scratch) {
    decode_part(info, part, steps.room(part), scratch);
  };
  range.for_each(threads, steps);
  return values;
}

Strings read_strings(const Array& array, uint64_t begin, uint64_t end, unsigned threads) {
  const ArrayInfo& info = array.info();
  if (info.strings == StringForm::kNone) {
    throw InvalidArgument(concat("an array of strings is needed, this one is of type ",
                                 name_of(info.type), ", in ", info.path));
  }
  if (info.strings == StringForm::kVlenUtf8) return read_vlen(array, begin, end, threads);
  const Buffer cells = read_values(array, begin, end, threads);
  if (info.strings == StringForm::kReferences) return array.strings_of(cells.span(), threads);
  Strings result;
  result.offsets.reserve(end - begin + 1);
  result.offsets.push_back(0);
  with_place(
      [&] {
        for (uint64_t i = 0; i < end - begin; ++i) {
          append_fixed(cells.span().subspan(i * info.cell_bytes, info.cell_bytes), info.strings,
                       result.characters);
          result.offsets.push_back(result.characters.size());
        }
      },
      [&] { return info.path; });
  return result;
}

}  // namespace penstock::format::chunked
