#include "codec/zstd/fse.h"
#include "codec/zstd/sequences.h"

namespace penstock::codec::zstd {
namespace {

/// The value of a symbol of a table.
struct Code {
  uint32_t base;
  uint8_t extra;
};

constexpr std::array<Code, 36> kLiteralCodes = {
    {{0, 0},     {1, 0},      {2, 0},      {3, 0},     {4, 0},   {5, 0},     {6, 0},     {7, 0},
     {8, 0},     {9, 0},      {10, 0},     {11, 0},    {12, 0},  {13, 0},    {14, 0},    {15, 0},
     {16, 1},    {18, 1},     {20, 1},     {22, 1},    {24, 2},  {28, 2},    {32, 3},    {40, 3},
     {48, 4},    {64, 6},     {128, 7},    {256, 8},   {512, 9}, {1024, 10}, {2048, 11}, {4096, 12},
     {8192, 13}, {16384, 14}, {32768, 15}, {65536, 16}}};

constexpr std::array<Code, 53> kMatchCodes = {
    {{3, 0},     {4, 0},     {5, 0},      {6, 0},      {7, 0},     {8, 0},   {9, 0},     {10, 0},
     {11, 0},    {12, 0},    {13, 0},     {14, 0},     {15, 0},    {16, 0},  {17, 0},    {18, 0},
     {19, 0},    {20, 0},    {21, 0},     {22, 0},     {23, 0},    {24, 0},  {25, 0},    {26, 0},
     {27, 0},    {28, 0},    {29, 0},     {30, 0},     {31, 0},    {32, 0},  {33, 0},    {34, 0},
     {35, 1},    {37, 1},    {39, 1},     {41, 1},     {43, 2},    {47, 2},  {51, 3},    {59, 3},
     {67, 4},    {83, 4},    {99, 5},     {131, 7},    {259, 8},   {515, 9}, {1027, 10}, {2051, 11},
     {4099, 12}, {8195, 13}, {16387, 14}, {32771, 15}, {65539, 16}}};

// No tile has offsets of 2^28 and more.
constexpr std::array<Code, 28> kOffsetCodes = [] {
  std::array<Code, 28> codes{};
  for (uint8_t i = 0; i < codes.size(); ++i) codes[i] = {uint32_t{1} << i, i};
  return codes;
}();

constexpr std::array<int16_t, 36> kLiteralCounts = {4, 3, 2, 2, 2, 2, 2, 2, 2,  2,  2,  2,
                                                    2, 1, 1, 1, 2, 2, 2, 2, 2,  2,  2,  2,
                                                    2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1};
constexpr std::array<int16_t, 53> kMatchCounts = {
    1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,  1,  1,  1,  1,  1,  1, 1,
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1};
constexpr std::array<int16_t, 29> kOffsetCounts = {1, 1, 1, 1, 1, 1, 2, 2, 2, 1,  1,  1,  1,  1, 1,
                                                   1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1};

struct Kind {
  std::span<const Code> codes;
  size_t symbols;
  unsigned most_log;
  std::span<const int16_t> default_counts;
  unsigned default_log;

  Code code(size_t symbol) const noexcept { return codes[symbol]; }
};

constexpr Kind kLiterals{kLiteralCodes, 36, 9, kLiteralCounts, 6};
constexpr Kind kOffsets{kOffsetCodes, kOffsetCodes.size(), 8, kOffsetCounts, 5};
constexpr Kind kMatches{kMatchCodes, 53, 9, kMatchCounts, 6};

void fill(const Kind& kind, const FseCounts& counts, SequenceTable& table) noexcept {
  for_each_fse_state(counts, [&](uint32_t state, uint8_t symbol, uint8_t bits, uint16_t next) {
    const Code code = symbol < kind.symbols ? kind.code(symbol) : Code{};
    table.states[state] = {code.base, static_cast<uint16_t>(code.extra | bits << 8), next};
  });
  table.log = counts.log;
}

SequenceTable default_table(const Kind& kind) noexcept {
  FseCounts counts;
  counts.log = kind.default_log;
  counts.symbols = kind.default_counts.size();
  for (size_t i = 0; i < counts.symbols; ++i) counts.counts[i] = kind.default_counts[i];
  SequenceTable table;
  fill(kind, counts, table);
  table.known = true;
  return table;
}

bool read_table(const Kind& kind, unsigned mode, std::span<const uint8_t>& in,
                SequenceTable& table) noexcept {
  switch (mode) {
    case 0: {
      static const std::array<SequenceTable, 3> defaults = {
          default_table(kLiterals), default_table(kOffsets), default_table(kMatches)};
      const SequenceTable& from = defaults[&kind == &kLiterals ? 0 : &kind == &kOffsets ? 1 : 2];
      for (size_t i = 0; i < size_t{1} << from.log; ++i) table.states[i] = from.states[i];
      table.log = from.log;
      break;
    }
    case 1: {
      if (in.empty() || in[0] >= kind.symbols) return false;
      const Code code = kind.code(in[0]);
      table.states[0] = {code.base, code.extra, 0};
      table.log = 0;
      in = in.subspan(1);
      break;
    }
    case 2: {
      FseCounts counts;
      const size_t taken = read_fse_counts(in, kind.most_log, kind.symbols, counts);
      if (taken == 0) return false;
      fill(kind, counts, table);
      in = in.subspan(taken);
      break;
    }
    default:
      return table.known;
  }
  table.known = true;
  return true;
}

}  // namespace

bool read_sequence_head(std::span<const uint8_t>& in, SequenceTables& tables,
                        size_t& count) noexcept {
  if (in.empty()) return false;
  const size_t head = in[0];
  size_t bytes = 1;
  if (head < 128) {
    count = head;
  } else if (head < 255) {
    if (in.size() < 2) return false;
    count = ((head - 128) << 8) + in[1];
    bytes = 2;
  } else {
    if (in.size() < 3) return false;
    count = in[1] + (size_t{in[2]} << 8) + 0x7F00;
    bytes = 3;
  }
  in = in.subspan(bytes);
  if (count == 0) return in.empty() && bytes == 1;
  if (in.empty() || (in[0] & 3) != 0) return false;
  const unsigned modes = in[0];
  in = in.subspan(1);
  return read_table(kLiterals, modes >> 6, in, tables.literals) &&
         read_table(kOffsets, (modes >> 4) & 3, in, tables.offset) &&
         read_table(kMatches, (modes >> 2) & 3, in, tables.match);
}

}  // namespace penstock::codec::zstd
