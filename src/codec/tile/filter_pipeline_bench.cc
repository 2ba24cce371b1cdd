#include <benchmark/benchmark.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <set>

#include "codec/tile/filter_pipeline.h"
#include "codec/value_codes.h"

// One stored tile of a Census-like X: 65,536 cells in chunks of 64 KiB, zstd level 9, of
//
//   rows    int64, zstd                    columns  int64, byteshuffle + zstd
//   values  float32, byteshuffle + zstd
//
// A row has about 2,000 of 60,664 columns. bytes/s are decoded bytes; "stored" is bytes a cell.

namespace penstock::codec {
namespace {

constexpr size_t kCells = 65536;
constexpr size_t kChunkBytes = 65536;
constexpr uint32_t kFormat = 22;

template <typename T>
void append(std::vector<std::byte>& bytes, T value) {
  const auto* from = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), from, from + sizeof(T));
}

void append_zstd(std::vector<std::byte>& data, std::vector<std::byte>& parts, const void* from,
                 size_t size) {
  std::vector<std::byte> compressed(ZSTD_compressBound(size));
  const size_t length = ZSTD_compress(compressed.data(), compressed.size(), from, size, 9);
  data.insert(data.end(), compressed.begin(), compressed.begin() + static_cast<ptrdiff_t>(length));
  append(parts, static_cast<uint32_t>(size));
  append(parts, static_cast<uint32_t>(length));
}

template <typename T>
std::vector<std::byte> store(const std::vector<T>& cells, bool shuffle) {
  std::vector<std::byte> tile;
  const size_t per_chunk = kChunkBytes / sizeof(T);
  append(tile, uint64_t{cells.size() / per_chunk});
  for (size_t begin = 0; begin < cells.size(); begin += per_chunk) {
    const auto* from = reinterpret_cast<const std::byte*>(cells.data() + begin);
    std::vector<std::byte> planes(from, from + kChunkBytes);
    if (shuffle) {
      for (size_t i = 0; i < kChunkBytes; ++i) {
        planes[i % sizeof(T) * per_chunk + i / sizeof(T)] = from[i];
      }
    }
    std::vector<std::byte> data;
    std::vector<std::byte> metadata;
    append(metadata, uint32_t{shuffle ? 1U : 0U});
    append(metadata, uint32_t{1});
    if (shuffle) {
      const uint32_t parts[] = {1, kChunkBytes};
      append_zstd(data, metadata, parts, sizeof(parts));
    }
    append_zstd(data, metadata, planes.data(), planes.size());
    append(tile, static_cast<uint32_t>(kChunkBytes));
    append(tile, static_cast<uint32_t>(data.size()));
    append(tile, static_cast<uint32_t>(metadata.size()));
    tile.insert(tile.end(), metadata.begin(), metadata.end());
    tile.insert(tile.end(), data.begin(), data.end());
  }
  return tile;
}

struct Columns {
  std::vector<std::byte> rows, columns, values;
};

const Columns& stored() {
  static const Columns all = [] {
    std::mt19937 random(1);
    std::vector<int64_t> rows, columns;
    std::vector<float> values;
    // Gene frequencies differ roughly as in nature: few common, many rare.
    std::lognormal_distribution<double> common(8.5, 1.2);
    std::geometric_distribution<int> count(0.45);
    for (int64_t row = 100000; rows.size() < kCells; ++row) {
      std::set<int64_t> genes;
      while (genes.size() < 2000) {
        const auto gene = static_cast<int64_t>(common(random));
        if (gene < 60664) genes.insert(gene);
      }
      for (const int64_t gene : genes) {
        rows.push_back(row);
        columns.push_back(gene);
        values.push_back(static_cast<float>(1 + count(random)));
      }
    }
    rows.resize(kCells);
    columns.resize(kCells);
    values.resize(kCells);
    return Columns{store(rows, false), store(columns, true), store(values, true)};
  }();
  return all;
}

FilterPipeline pipeline(bool shuffle) {
  FilterConfig shuffled, zstd;
  shuffled.type = FilterType::kByteShuffle;
  zstd.type = FilterType::kZstd;
  return shuffle ? FilterPipeline({shuffled, zstd}, kChunkBytes)
                 : FilterPipeline({zstd}, kChunkBytes);
}

void report(benchmark::State& state, const std::vector<std::byte>& tile, size_t width) {
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(kCells * width));
  state.counters["values/s"] = benchmark::Counter(static_cast<double>(state.iterations()) * kCells,
                                                  benchmark::Counter::kIsRate);
  state.counters["stored"] = static_cast<double>(tile.size()) / kCells;
}

void decode_whole(benchmark::State& state, const std::vector<std::byte>& tile, bool shuffle,
                  DataType type) {
  const auto filters = pipeline(shuffle);
  const size_t width = size_of(type);
  std::vector<std::byte> out(kCells * width);
  DecodeScratch scratch;
  for (auto _ : state) {
    filters.decode(tile, type, kFormat, out, scratch);
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  report(state, tile, width);
}

void rows_whole(benchmark::State& state) {
  decode_whole(state, stored().rows, false, DataType::kInt64);
}
void columns_whole(benchmark::State& state) {
  decode_whole(state, stored().columns, true, DataType::kInt64);
}
void values_whole(benchmark::State& state) {
  decode_whole(state, stored().values, true, DataType::kFloat32);
}
BENCHMARK(rows_whole);
BENCHMARK(columns_whole);
BENCHMARK(values_whole);

template <typename Use>
void by_chunk(benchmark::State& state, const std::vector<std::byte>& tile, bool shuffle,
              DataType type, Use use) {
  const auto filters = pipeline(shuffle);
  DecodeScratch scratch;
  for (auto _ : state) {
    size_t done = 0;
    Chunk chunk;
    for (ChunkReader chunks(tile); chunks.next(chunk);) {
      const auto cells = filters.decode_chunk_planes(chunk, type, kFormat, scratch);
      use(cells.bytes, done, cells.bytes.size() / size_of(type));
      done += cells.bytes.size() / size_of(type);
    }
    benchmark::ClobberMemory();
  }
  report(state, tile, size_of(type));
}

void values_to_codes(benchmark::State& state) {
  std::vector<uint8_t> out(kCells);
  Escapes<uint32_t> escapes;
  by_chunk(state, stored().values, true, DataType::kFloat32,
           [&](std::span<const std::byte> planes, size_t begin, size_t count) {
             escapes.clear();
             shuffled_float32_to_codes(planes, std::span(out).subspan(begin, count), escapes);
           });
}
BENCHMARK(values_to_codes);

}  // namespace
}  // namespace penstock::codec
