#include <benchmark/benchmark.h>

#include <random>

#include "codec/byteshuffle.h"
#include "codec/narrow.h"

// Kernels on one chunk (64 KiB of cells), which is what the X reader gives them. "values/s" are
// cells; bytes/s are bytes of wide cells, read.

namespace penstock::codec {
namespace {

constexpr size_t kChunkBytes = 65536;

SimdLevel level_of(const benchmark::State& state) {
  return static_cast<SimdLevel>(std::min(state.range(0), static_cast<int64_t>(best_simd_level())));
}

/// Planes or cells of small counts: `width` bytes each, only the low byte used.
std::vector<std::byte> counts(size_t width, bool shuffled) {
  std::mt19937 random(1);
  std::vector<std::byte> bytes(kChunkBytes);
  const size_t count = kChunkBytes / width;
  for (size_t i = 0; i < count; ++i) {
    bytes[shuffled ? i : i * width] = static_cast<std::byte>(1 + random() % 20);
  }
  return bytes;
}

/// The same as float32, one in 1,000 above 254.
std::vector<std::byte> float_counts(bool shuffled) {
  std::mt19937 random(1);
  std::vector<std::byte> bytes(kChunkBytes);
  const size_t count = kChunkBytes / 4;
  for (size_t i = 0; i < count; ++i) {
    const auto value = static_cast<float>(random() % 1000 == 0 ? 1000 : 1 + random() % 20);
    const auto bits = std::bit_cast<uint32_t>(value);
    for (size_t k = 0; k < 4; ++k) {
      bytes[shuffled ? k * count + i : 4 * i + k] = static_cast<std::byte>(bits >> (8 * k));
    }
  }
  return bytes;
}

void report(benchmark::State& state, size_t width) {
  const auto chunks = static_cast<double>(state.iterations());
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(kChunkBytes));
  state.counters["values/s"] = benchmark::Counter(chunks * static_cast<double>(kChunkBytes / width),
                                                  benchmark::Counter::kIsRate);
}

void unshuffle(benchmark::State& state) {
  const auto width = static_cast<size_t>(state.range(1));
  const auto planes = counts(width, true);
  std::vector<std::byte> out(kChunkBytes);
  for (auto _ : state) {
    unshuffle_bytes(width, planes, out, level_of(state));
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  report(state, width);
}
BENCHMARK(unshuffle)->ArgNames({"simd", "width"})->ArgsProduct({{0, 1, 2}, {2, 4, 8}});

template <typename Narrow, auto kFunction, bool kShuffled>
void ids(benchmark::State& state) {
  const auto in = counts(8, kShuffled);
  std::vector<Narrow> out(kChunkBytes / 8);
  for (auto _ : state) {
    bool fits = kFunction(in, out, level_of(state));
    benchmark::DoNotOptimize(fits);
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  report(state, 8);
}
BENCHMARK(ids<uint16_t, unshuffle_to_uint16, true>)
    ->Name("unshuffle_to_uint16")
    ->ArgName("simd")
    ->Arg(0)
    ->Arg(2);
BENCHMARK(ids<uint32_t, unshuffle_to_uint32, true>)
    ->Name("unshuffle_to_uint32")
    ->ArgName("simd")
    ->Arg(0)
    ->Arg(2);
BENCHMARK(ids<uint16_t, narrow_to_uint16, false>)
    ->Name("narrow_to_uint16")
    ->ArgName("simd")
    ->Arg(0)
    ->Arg(2);
BENCHMARK(ids<uint32_t, narrow_to_uint32, false>)
    ->Name("narrow_to_uint32")
    ->ArgName("simd")
    ->Arg(0)
    ->Arg(2);

template <typename Bits, auto kFunction, bool kFloat, bool kShuffled>
void codes(benchmark::State& state) {
  const auto in = kFloat ? float_counts(kShuffled) : counts(sizeof(Bits), kShuffled);
  std::vector<uint8_t> out(kChunkBytes / sizeof(Bits));
  Escapes<Bits> escapes;
  for (auto _ : state) {
    escapes.clear();
    kFunction(in, out, escapes, kAnyNumber, level_of(state));
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  report(state, sizeof(Bits));
}

void scalar_and_vector(benchmark::internal::Benchmark* run) {
  run->ArgName("simd")->Arg(0)->Arg(2);
}

BENCHMARK(codes<uint32_t, float32_to_codes, true, false>)
    ->Name("float32_to_codes")
    ->Apply(scalar_and_vector);
BENCHMARK(codes<uint32_t, shuffled_float32_to_codes, true, true>)
    ->Name("shuffled_float32_to_codes")
    ->Apply(scalar_and_vector);
BENCHMARK(codes<uint32_t, int32_to_codes, false, false>)
    ->Name("int32_to_codes")
    ->Apply(scalar_and_vector);
BENCHMARK(codes<uint32_t, shuffled_int32_to_codes, false, true>)
    ->Name("shuffled_int32_to_codes")
    ->Apply(scalar_and_vector);
BENCHMARK(codes<uint64_t, int64_to_codes, false, false>)
    ->Name("int64_to_codes")
    ->Apply(scalar_and_vector);
BENCHMARK(codes<uint64_t, shuffled_int64_to_codes, false, true>)
    ->Name("shuffled_int64_to_codes")
    ->Apply(scalar_and_vector);

}  // namespace
}  // namespace penstock::codec
