#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "kernel/pack_row.h"
#include "kernel/unpack_row.h"

// Cells a second of one thread, for rows like those of the Census: 60,664 genes, 1,900 non-zeros, a
// few values above 254. Rows are drawn at random from 200 MB of records, and batches reuse a few
// buffers, so that caches behave as in the pipeline.

namespace penstock::kernel {
namespace {

constexpr uint32_t kColumns = 60664;
constexpr uint32_t kNnz = 1900;
constexpr size_t kRows = 32768;
constexpr size_t kBatch = 128;
constexpr size_t kBatches = 4;

struct Records {
  PackedRowLayout layout = make_row_layout(kColumns, DataType::kFloat32);
  std::vector<std::byte> bytes;
  std::vector<const std::byte*> order;

  Records() {
    std::mt19937_64 random(1);
    std::vector<std::vector<std::byte>> distinct;
    for (int i = 0; i < 64; ++i) {
      std::vector<uint32_t> columns(kNnz);
      std::vector<float> values(kNnz);
      for (uint32_t& column : columns) column = static_cast<uint32_t>(random() % kColumns);
      std::sort(columns.begin(), columns.end());
      for (float& value : values) {
        value = static_cast<float>(random() % 300 == 0 ? 500 + random() % 500 : 1 + random() % 20);
      }
      const auto* raw = reinterpret_cast<const std::byte*>(values.data());
      const uint32_t wide = choose_wide_count(layout, raw, kNnz);
      distinct.emplace_back(layout.record_bytes(kNnz, wide));
      pack_row(layout, std::span<const uint32_t>(columns), raw, wide, distinct.back().data());
    }
    std::vector<size_t> offsets;
    for (size_t i = 0; i < kRows; ++i) {
      offsets.push_back(bytes.size());
      const auto& record = distinct[random() % distinct.size()];
      bytes.insert(bytes.end(), record.begin(), record.end());
    }
    std::shuffle(offsets.begin(), offsets.end(), random);
    for (const size_t offset : offsets) order.push_back(bytes.data() + offset);
  }
};

const Records& records() {
  static const Records made;
  return made;
}

void prefetch(const std::byte* record) {
  for (size_t offset = 0; offset < 512; offset += 64) __builtin_prefetch(record + offset);
}

/// Batches in huge pages, as the pipeline has them.
std::byte* batch_memory(size_t bytes) {
  constexpr size_t kHugePage = size_t{2} << 20;
  bytes = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  auto* const memory = static_cast<std::byte*>(std::aligned_alloc(kHugePage, bytes));
  ::madvise(memory, bytes, MADV_HUGEPAGE);
  std::memset(memory, 1, bytes);
  return memory;
}

void csr(benchmark::State& state) {
  const auto path = static_cast<VectorPath>(state.range(0));
  const RowUnpacker unpacker(records().layout, DataType::kFloat32, path);
  constexpr size_t kEntries = kBatches * kBatch * kNnz;
  std::byte* const memory = batch_memory(2 * kEntries * sizeof(float));
  auto* const indices = reinterpret_cast<int32_t*>(memory);
  std::byte* const values = memory + kEntries * sizeof(int32_t);
  size_t row = 0;
  size_t batch = 0;
  for (auto _ : state) {
    size_t at = batch++ % kBatches * kBatch * kNnz;
    for (size_t i = 0; i < kBatch; ++i, ++row, at += kNnz) {
      prefetch(records().order[(row + 1) % kRows]);
      unpacker.append_csr(records().order[row % kRows], indices + at, values + at * sizeof(float));
    }
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(static_cast<int64_t>(row));
  std::free(memory);
}
BENCHMARK(csr)->Arg(0)->Arg(1);

enum class Fill { kStreamed, kScattered, kClearedOnly };

void dense(benchmark::State& state) {
  const auto fill = static_cast<Fill>(state.range(0));
  const RowUnpacker unpacker(records().layout, DataType::kFloat32);
  constexpr size_t kRowBytes = kColumns * sizeof(float);
  std::byte* const values = batch_memory(kBatches * kBatch * kRowBytes);
  size_t row = 0;
  size_t batch = 0;
  for (auto _ : state) {
    std::byte* at = values + batch++ % kBatches * kBatch * kRowBytes;
    for (size_t i = 0; i < kBatch; ++i, ++row, at += kRowBytes) {
      const std::byte* const record = records().order[row % kRows];
      if (fill == Fill::kStreamed) {
        prefetch(records().order[(row + 1) % kRows]);
        unpacker.fill_dense(record, at, kColumns);
        continue;
      }
      std::memset(at, 0, kRowBytes);
      if (fill == Fill::kScattered) unpacker.scatter_dense(record, at);
    }
    finish_dense();
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(static_cast<int64_t>(row));
  std::free(values);
}
BENCHMARK(dense)->Arg(0)->Arg(1)->Arg(2);

}  // namespace
}  // namespace penstock::kernel
