#include <bit>
#include <cstring>

#include "codec/zstd/bits.h"
#include "codec/zstd/fse.h"
#include "codec/zstd/huffman.h"

namespace penstock::codec::zstd {
namespace {

constexpr size_t kMostSymbols = 256;
constexpr unsigned kMostWeightLog = 6;
constexpr unsigned kMostWeight = kMostHuffmanLog;

using Weights = std::array<uint8_t, kMostSymbols>;

/// Decodes weights with two alternating states to the end of the stream. Returns the number of
/// weights, or 0 if the stream is bad.
size_t read_fse_weights(std::span<const uint8_t> in, Weights& weights) noexcept {
  FseCounts counts;
  const size_t taken = read_fse_counts(in, kMostWeightLog, kMostWeight + 1, counts);
  if (taken == 0) return 0;
  struct State {
    uint8_t weight;
    uint8_t bits;
    uint16_t next;
  };
  std::array<State, size_t{1} << kMostWeightLog> table;
  for_each_fse_state(counts, [&](uint32_t state, uint8_t weight, uint8_t bits, uint16_t next) {
    table[state] = {weight, bits, next};
  });
  ReverseBits bits;
  if (!bits.open(in.data() + taken, in.size() - taken)) return 0;
  std::array<size_t, 2> state;
  for (size_t& each : state) each = static_cast<size_t>(bits.read(counts.log));
  if (bits.left < 0) return 0;
  size_t count = 0;
  for (size_t turn = 0; count + 1 < kMostSymbols; turn ^= 1) {
    const State& now = table[state[turn]];
    weights[count++] = now.weight;
    if (now.bits > bits.left) {
      weights[count++] = table[state[turn ^ 1]].weight;
      return count;
    }
    state[turn] = now.next + static_cast<size_t>(bits.read(now.bits));
  }
  return 0;
}

size_t read_weights(std::span<const uint8_t> in, Weights& weights, size_t& taken) noexcept {
  if (in.empty()) return 0;
  const size_t head = in[0];
  const auto rest = in.subspan(1);
  if (head < 128) {
    if (head == 0 || head > rest.size()) return 0;
    taken = 1 + head;
    return read_fse_weights(rest.first(head), weights);
  }
  const size_t count = head - 127;
  if ((count + 1) / 2 > rest.size()) return 0;
  taken = 1 + (count + 1) / 2;
  for (size_t i = 0; i < count; ++i) {
    weights[i] = i % 2 == 0 ? rest[i / 2] >> 4 : rest[i / 2] & 15;
  }
  return count;
}

void fill_entries(HuffmanTable::Entry* at, HuffmanTable::Entry entry, size_t count) noexcept {
  if (count < 4) {
    for (size_t i = 0; i < count; ++i) at[i] = entry;
    return;
  }
  uint16_t pair;
  std::memcpy(&pair, &entry, sizeof(pair));
  const uint64_t four = uint64_t{0x0001000100010001} * pair;
  for (size_t i = 0; i < count; i += 4) std::memcpy(at + i, &four, sizeof(four));
}

}  // namespace

size_t read_huffman_table(std::span<const uint8_t> in, HuffmanTable& table) noexcept {
  Weights weights;
  size_t taken = 0;
  size_t count = read_weights(in, weights, taken);
  if (count == 0 || count >= kMostSymbols) return 0;
  std::array<uint32_t, kMostWeight + 2> with_weight{};
  uint32_t sum = 0;
  for (size_t i = 0; i < count; ++i) {
    if (weights[i] > kMostWeight) return 0;
    ++with_weight[weights[i]];
    sum += (uint32_t{1} << weights[i]) >> 1;
  }
  if (sum == 0) return 0;
  // The last symbol's weight makes the sum a power of two.
  const auto log = static_cast<unsigned>(std::bit_width(sum));
  if (log > kMostHuffmanLog) return 0;
  const uint32_t rest = (uint32_t{1} << log) - sum;
  if (!std::has_single_bit(rest)) return 0;
  weights[count] = static_cast<uint8_t>(std::bit_width(rest));
  ++with_weight[weights[count++]];
  if (with_weight[1] < 2 || with_weight[1] % 2 != 0) return 0;

  // Sorts symbols by weight, so that each length has its own loop.
  std::array<uint32_t, kMostWeight + 2> first{};
  for (unsigned weight = 1; weight <= log; ++weight) {
    first[weight + 1] = first[weight] + with_weight[weight];
  }
  std::array<uint8_t, kMostSymbols> by_weight;
  auto next = first;
  next[0] = kMostSymbols - with_weight[0];  // symbols that do not occur go to the end
  for (size_t symbol = 0; symbol < count; ++symbol) {
    by_weight[next[weights[symbol]]++] = static_cast<uint8_t>(symbol);
  }
  HuffmanTable::Entry* at = table.entries.data();
  for (unsigned weight = 1; weight <= log; ++weight) {
    const size_t length = size_t{1} << (weight - 1);
    const auto bits = static_cast<uint8_t>(log + 1 - weight);
    for (uint32_t i = first[weight]; i < first[weight + 1]; ++i, at += length) {
      fill_entries(at, {bits, by_weight[i]}, length);
    }
  }
  table.log = log;
  return taken;
}

}  // namespace penstock::codec::zstd
