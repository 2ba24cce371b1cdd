#include <benchmark/benchmark.h>

#include "plan/order/row_permutation.h"

// Measures the cost of a global shuffle's order for each row.

namespace penstock::plan {
namespace {

void position(benchmark::State& state) {
  const auto size = static_cast<uint64_t>(state.range(0));
  const RowPermutation order(random_key(1, 2, Purpose::kGlobalOrder), size);
  uint64_t slot = 0, sum = 0;
  for (auto _ : state) {
    sum += order.position(slot);
    if (++slot == size) slot = 0;
  }
  benchmark::DoNotOptimize(sum);
}
BENCHMARK(position)->Arg(60'000)->Arg(65'536)->Arg(10'000'019)->Arg(int64_t{5} << 33);

void slot(benchmark::State& state) {
  const auto size = static_cast<uint64_t>(state.range(0));
  const RowPermutation order(random_key(1, 2, Purpose::kGlobalOrder), size);
  uint64_t position = 0, sum = 0;
  for (auto _ : state) {
    sum += order.slot(position);
    if (++position == size) position = 0;
  }
  benchmark::DoNotOptimize(sum);
}
BENCHMARK(slot)->Arg(10'000'019);

}  // namespace
}  // namespace penstock::plan
