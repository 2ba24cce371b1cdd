#include <benchmark/benchmark.h>
#include <lz4.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <set>

#include "codec/chunk/chunk_pipeline.h"
#include "codec/value_codes.h"

// Chunks as annbatch stores X: blosc with LZ4, byte shuffle, blocks of up to 256 KiB, a stream for
// each byte plane; float32 values and uint16 columns of 64 rows with about 1,963 of 60,664 columns.
// "row" is the time of one such row, of values or of columns.

namespace penstock::codec {
namespace {

constexpr size_t kRows = 64;
constexpr size_t kRowCells = 1963;
constexpr size_t kBlockBytes = 256 << 10;

using Bytes = std::vector<std::byte>;

void append(Bytes& bytes, const void* from, size_t size) {
  bytes.resize(bytes.size() + size);
  std::memcpy(bytes.data() + bytes.size() - size, from, size);
}

void append_number(Bytes& bytes, size_t number) {
  const auto value = static_cast<uint32_t>(number);
  append(bytes, &value, sizeof(value));
}

/// Streams of equal shares of `planes`.
void append_streams(Bytes& chunk, const Bytes& planes, size_t streams) {
  const size_t share = planes.size() / streams;
  for (size_t stream = 0; stream < streams; ++stream) {
    Bytes packed(static_cast<size_t>(LZ4_compressBound(static_cast<int>(share))));
    const auto* from = reinterpret_cast<const char*>(planes.data() + stream * share);
    const auto size = static_cast<size_t>(
        LZ4_compress_default(from, reinterpret_cast<char*>(packed.data()), static_cast<int>(share),
                             static_cast<int>(packed.size())));
    const bool raw = size >= share;
    append_number(chunk, raw ? share : size);
    append(chunk, raw ? static_cast<const void*>(from) : packed.data(), raw ? share : size);
  }
}

template <typename T>
Bytes store(const std::vector<T>& cells) {
  const size_t bytes = cells.size() * sizeof(T);
  const size_t block_bytes = std::min(kBlockBytes, bytes);
  const size_t blocks = (bytes + block_bytes - 1) / block_bytes;
  const uint8_t head[] = {2, 1, 0x21, sizeof(T)};
  Bytes chunk;
  append(chunk, head, sizeof(head));
  append_number(chunk, bytes);
  append_number(chunk, block_bytes);
  chunk.resize(16 + 4 * blocks);
  for (size_t block = 0; block < blocks; ++block) {
    const size_t begin = block * block_bytes / sizeof(T);
    const size_t count = std::min(block_bytes / sizeof(T), cells.size() - begin);
    const auto* from = reinterpret_cast<const std::byte*>(cells.data() + begin);
    Bytes planes(count * sizeof(T));
    for (size_t i = 0; i < planes.size(); ++i) {
      planes[i % sizeof(T) * count + i / sizeof(T)] = from[i];
    }
    const auto start = static_cast<uint32_t>(chunk.size());
    std::memcpy(chunk.data() + 16 + 4 * block, &start, sizeof(start));
    append_streams(chunk, planes, planes.size() == block_bytes ? sizeof(T) : 1);
  }
  const auto size = static_cast<uint32_t>(chunk.size());
  std::memcpy(chunk.data() + 12, &size, sizeof(size));
  return chunk;
}

struct Chunks {
  Bytes values, columns;
};

const Chunks& stored() {
  static const Chunks all = [] {
    std::mt19937 random(1);
    std::vector<float> values;
    std::vector<uint16_t> columns;
    // Gene frequencies differ roughly as in nature: few common, many rare.
    std::lognormal_distribution<double> common(8.5, 1.2);
    std::geometric_distribution<int> count(0.45);
    for (size_t row = 0; row < kRows; ++row) {
      std::set<uint16_t> genes;
      while (genes.size() < kRowCells) {
        const double gene = common(random);
        if (gene < 60664) genes.insert(static_cast<uint16_t>(gene));
      }
      columns.insert(columns.end(), genes.begin(), genes.end());
      for (size_t i = 0; i < kRowCells; ++i) {
        values.push_back(static_cast<float>(1 + count(random)));
      }
    }
    return Chunks{store(values), store(columns)};
  }();
  return all;
}

void report(benchmark::State& state, const Bytes& chunk) {
  state.counters["row"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * kRows,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.counters["stored"] = static_cast<double>(chunk.size()) / (kRows * kRowCells);
}

void decode(benchmark::State& state, const Bytes& chunk, size_t width) {
  const ChunkPipeline pipeline({{ChunkFilterType::kBlosc}});
  ChunkScratch scratch;
  Bytes out(kRows * kRowCells * width);
  for (auto _ : state) {
    pipeline.decode(chunk, 0, out, scratch);
    benchmark::ClobberMemory();
  }
  report(state, chunk);
}

template <typename Use>
void parts(benchmark::State& state, const Bytes& chunk, uint32_t width, Use use) {
  const ChunkPipeline pipeline({{ChunkFilterType::kBlosc}});
  ChunkScratch scratch;
  const uint64_t bytes = kRows * kRowCells * width;
  for (auto _ : state) {
    pipeline.decode_parts(chunk, 0, bytes, width, 0, bytes, scratch,
                          [&](uint64_t first, const CellBytes& piece) { use(first, piece); });
    benchmark::ClobberMemory();
  }
  report(state, chunk);
}

void values_to_cells(benchmark::State& state) { decode(state, stored().values, 4); }
void columns_to_cells(benchmark::State& state) { decode(state, stored().columns, 2); }
void columns_to_planes(benchmark::State& state) {
  parts(state, stored().columns, 2,
        [](uint64_t, const CellBytes& piece) { benchmark::DoNotOptimize(piece.bytes.data()); });
}
void values_to_planes(benchmark::State& state) {
  parts(state, stored().values, 4,
        [](uint64_t, const CellBytes& piece) { benchmark::DoNotOptimize(piece.bytes.data()); });
}
void values_to_codes_by_planes(benchmark::State& state) {
  std::vector<uint8_t> codes(kRows * kRowCells);
  Escapes<uint32_t> escapes;
  parts(state, stored().values, 4, [&](uint64_t first, const CellBytes& piece) {
    escapes.clear();
    shuffled_float32_to_codes(piece.bytes,
                              std::span(codes).subspan(first / 4, piece.bytes.size() / 4), escapes);
  });
}
BENCHMARK(values_to_cells);
BENCHMARK(values_to_planes);
BENCHMARK(values_to_codes_by_planes);
BENCHMARK(columns_to_cells);
BENCHMARK(columns_to_planes);

}  // namespace
}  // namespace penstock::codec
