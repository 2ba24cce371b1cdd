#include "codec/compressors/rle.h"

#include <penstock/error.h>

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/concat.h"
#include "codec/compressors/compression.h"

namespace penstock::codec {
namespace {

void decode_part(const FilterStep& step, std::span<const std::byte> in, std::span<std::byte> out) {
  const uint64_t cell = step.cell_bytes;
  const uint64_t run = cell + 2;
  if (cell == 0 || in.size() % run != 0) {
    throw_bad_part(step.config.type, "not a whole number of runs", in.size(), out.size());
  }
  std::byte* to = out.data();
  size_t left = out.size();
  for (const std::byte *from = in.data(), *end = from + in.size(); from != end; from += run) {
    const size_t length =
        std::to_integer<size_t>(from[cell]) << 8 | std::to_integer<size_t>(from[cell + 1]);
    if (length > left / cell) {
      throw_bad_part(step.config.type, "runs are longer than the part", in.size(), out.size());
    }
    if (cell == 1) {
      to = std::fill_n(to, length, *from);
    } else {
      for (size_t i = 0; i < length; ++i, to += cell) std::memcpy(to, from, cell);
    }
    left -= length * cell;
  }
  if (left != 0) {
    throw_bad_part(step.config.type, "runs are shorter than the part", in.size(), out.size());
  }
}

struct Run {
  uint64_t length = 0;
  std::string_view string;
};

Run read_run(ByteReader& in, uint8_t length_width, uint8_t string_width) {
  Run run;
  run.length = read_big_endian(in, length_width, "run length");
  const uint64_t string_bytes = read_big_endian(in, string_width, "string length");
  run.string = in.take_string(string_bytes, "string of a run");
  return run;
}

}  // namespace

void decode_rle(FilterStep& step) { decode_compressed(step, decode_part); }

void decode_rle_strings(FilterStep& step, StringTarget& target) {
  read_string_header(step, target);
  const uint8_t length_width = read_integer_width(step, "width of run lengths");
  const uint8_t string_width = read_integer_width(step, "width of string lengths");
  step.pass_metadata();

  uint64_t strings = 0;
  uint64_t characters = 0;
  for (ByteReader in(step.data); !in.empty();) {
    const Run run = read_run(in, length_width, string_width);
    strings = checked_add(strings, run.length, "number of strings");
    characters = checked_add(
        characters, checked_mul<uint64_t>(run.length, run.string.size(), "characters of a run"),
        "characters");
    if (strings > target.expected.strings) {
      throw CorruptData(
          concat("rle: runs of ", strings, " strings or more, expected ", target.expected.strings));
    }
  }
  size_target(step, target, strings, characters);

  auto* to = reinterpret_cast<char*>(target.characters.data());
  uint64_t offset = 0;
  for (ByteReader in(step.data); !in.empty();) {
    const Run run = read_run(in, length_width, string_width);
    for (uint64_t i = 0; i < run.length; ++i) {
      target.offsets.push_back(offset);
      if (!run.string.empty()) std::memcpy(to + offset, run.string.data(), run.string.size());
      offset += run.string.size();
    }
  }
}

}  // namespace penstock::codec
