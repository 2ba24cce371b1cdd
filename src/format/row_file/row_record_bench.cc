#include <benchmark/benchmark.h>

#include <cmath>
#include <random>
#include <vector>

#include "base/hash/checksum.h"
#include "format/row_file/row_record.h"
#include "kernel/pack_row.h"

// A cell of about 1,900 non-zeros: genes of very different abundance, counts that are mostly 1.

namespace {

using namespace penstock;
using namespace penstock::format::pack;

constexpr uint32_t kColumns = 60664;
constexpr int kRows = 256;

struct Rows {
  kernel::PackedRowLayout layout = kernel::make_row_layout(kColumns, DataType::kFloat32);
  std::vector<std::vector<std::byte>> packed;
  std::vector<std::vector<std::byte>> stored;  // with slack
  std::vector<size_t> lengths;
  uint64_t nonzeros = 0;

  Rows() {
    std::mt19937_64 random(1);
    std::vector<double> share(kColumns);
    for (double& s : share) s = 0.0055 * std::pow(std::exponential_distribution<>()(random), 3);
    RowEncoder encoder(layout, kColumns);
    for (int i = 0; i < kRows; ++i) {
      std::vector<uint32_t> columns;
      std::vector<float> values;
      for (uint32_t c = 0; c < kColumns; ++c) {
        if (std::uniform_real_distribution<>()(random) >= share[c]) continue;
        columns.push_back(c);
        values.push_back(static_cast<float>(1 + std::geometric_distribution<int>(0.6)(random)));
      }
      const auto* const bytes = reinterpret_cast<const std::byte*>(values.data());
      const auto nnz = static_cast<uint32_t>(columns.size());
      const uint32_t wide = kernel::choose_wide_count(layout, bytes, nnz);
      packed.emplace_back(layout.record_bytes(nnz, wide));
      kernel::pack_row(layout, columns, bytes, wide, packed.back().data());
      stored.emplace_back();
      lengths.push_back(encoder.append(packed.back().data(), stored.back()));
      stored.back().resize(lengths.back() + kRecordSlack);
      nonzeros += nnz;
    }
  }
};

const Rows& rows() {
  static const Rows made;
  return made;
}

void count(benchmark::State& state) {
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(rows().nonzeros));
  state.counters["rows"] = benchmark::Counter(static_cast<double>(state.iterations()) * kRows,
                                              benchmark::Counter::kIsRate);
}

void decode(benchmark::State& state, VectorPath path) {
  const RowDecoder decoder(rows().layout, kColumns, path);
  std::vector<std::byte> row(1 << 20);
  for (auto _ : state) {
    for (size_t i = 0; i < kRows; ++i) {
      const auto record = std::span(rows().stored[i]).first(rows().lengths[i]);
      if (!decoder.intact(record)) state.SkipWithError("checksum");
      decoder.decode(record, decoder.shape(record), row.data());
      benchmark::DoNotOptimize(row.data());
    }
  }
  count(state);
}
BENCHMARK_CAPTURE(decode, scalar, VectorPath::kScalar);
BENCHMARK_CAPTURE(decode, best, best_vector_path());

void checksum(benchmark::State& state, VectorPath path) {
  for (auto _ : state) {
    for (size_t i = 0; i < kRows; ++i) {
      benchmark::DoNotOptimize(
          lane_checksum(std::span(rows().stored[i]).first(rows().lengths[i]), path));
    }
  }
  count(state);
}
BENCHMARK_CAPTURE(checksum, scalar, VectorPath::kScalar);
BENCHMARK_CAPTURE(checksum, best, best_vector_path());

void encode(benchmark::State& state) {
  RowEncoder encoder(rows().layout, kColumns);
  std::vector<std::byte> out;
  for (auto _ : state) {
    out.clear();
    for (const auto& row : rows().packed) encoder.append(row.data(), out);
    benchmark::DoNotOptimize(out.data());
  }
  count(state);
}
BENCHMARK(encode);

}  // namespace
