#include <penstock/error.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "format/soma/x/source.h"

// Decodes and packs every fetch unit of an X array, one unit after the other, tasks shared by N
// threads, and prints rows per CPU second of each part:
//
//   x_source_bench ARRAY [threads] [rounds] [every n-th column]

namespace {

using Clock = std::chrono::steady_clock;
using penstock::format::UnitDecode;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// CPU time of all threads: what a part costs, also on a machine that others use.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

template <typename Body>
void share(size_t count, unsigned threads, Body&& body) {
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < count; i = next++) body(i);
  };
  std::vector<std::jthread> others;
  for (unsigned i = 1; i < threads && i < count; ++i) others.emplace_back(work);
  work();
}

struct Totals {
  uint64_t rows = 0, nonzeros = 0, packed_bytes = 0, bytes_read = 0;
  double fetch = 0, phases[8] = {}, pack = 0;
};

void run_unit(UnitDecode& decode, unsigned threads, std::vector<std::byte>& packed,
              Totals& totals) {
  double begin = cpu_seconds();
  decode.fetch();
  totals.fetch += cpu_seconds() - begin;
  for (size_t phase = 0; phase < decode.phase_count(); ++phase) {
    begin = cpu_seconds();
    share(decode.task_count(phase), threads, [&](size_t task) { decode.run(phase, task); });
    totals.phases[phase] += cpu_seconds() - begin;
  }
  begin = cpu_seconds();
  std::vector<size_t> places(decode.row_count() + size_t{1}, 0);
  for (uint32_t row = 0; row < decode.row_count(); ++row) {
    places[row + 1] = places[row] + decode.packed_bytes(row);
    totals.nonzeros += decode.nnz(row);
  }
  if (packed.size() < places.back()) packed.resize(places.back());
  constexpr size_t kBlock = 256;
  share((decode.row_count() + kBlock - 1) / kBlock, threads, [&](size_t block) {
    const size_t end = std::min<size_t>(decode.row_count(), (block + 1) * kBlock);
    for (size_t row = block * kBlock; row < end; ++row) {
      decode.pack(static_cast<uint32_t>(row), packed.data() + places[row]);
    }
  });
  totals.pack += cpu_seconds() - begin;
  totals.rows += decode.row_count();
  totals.packed_bytes += places.back();
  totals.bytes_read += decode.bytes_read();
}

int run(int count, char** arguments) {
  if (count < 2) {
    std::fprintf(stderr, "usage: x_source_bench ARRAY [threads] [rounds] [every n-th column]\n");
    return 2;
  }
  const auto threads = static_cast<unsigned>(count > 2 ? std::atoi(arguments[2]) : 1);
  const int rounds = count > 3 ? std::atoi(arguments[3]) : 3;
  const int step = count > 4 ? std::atoi(arguments[4]) : 1;
  auto begin = Clock::now();
  const auto source =
      penstock::format::soma::open_x_source(penstock::io::store_for(arguments[1]), arguments[1]);
  const auto& info = source->info();
  std::printf("%s: %lld x %lld, %llu cells in %llu tiles, %u fragments, %zu units, open %.3f s\n",
              info.layout.c_str(), static_cast<long long>(info.row_domain_end),
              static_cast<long long>(info.column_domain_end),
              static_cast<unsigned long long>(info.stored_cells),
              static_cast<unsigned long long>(info.tile_count), info.fragment_count,
              source->units().size(), seconds_since(begin));
  std::vector<int64_t> columns;
  for (int64_t i = 0; i < info.column_domain_end; i += step) columns.push_back(i);
  const auto reader = source->reader(columns);
  begin = Clock::now();
  std::printf("packed bytes a stored cell %.3f, sampled in %.3f s\n",
              reader->packed_bytes_per_cell(), seconds_since(begin));
  std::vector<std::byte> packed;
  for (int round = 0; round < rounds; ++round) {
    Totals totals;
    std::unique_ptr<UnitDecode> decode;
    begin = Clock::now();
    const double cpu_begin = cpu_seconds();
    for (uint32_t unit = 0; unit < source->units().size(); ++unit) {
      const auto& place = source->units()[unit];
      std::vector<int64_t> rows(static_cast<size_t>(place.row_end - place.row_begin));
      std::iota(rows.begin(), rows.end(), place.row_begin);
      decode = reader->start(unit, std::move(rows), std::move(decode));
      run_unit(*decode, threads, packed, totals);
    }
    const double all = seconds_since(begin);
    const double cpu = cpu_seconds() - cpu_begin;
    const auto rate = [&](double seconds) {
      return static_cast<double>(totals.rows) / seconds / 1000;
    };
    std::printf("%u threads: %.1f k rows/s, %.1f k rows a CPU second: fetch %.0f, ", threads,
                rate(all), rate(cpu), rate(totals.fetch));
    for (size_t phase = 0; phase < 5; ++phase) {
      if (totals.phases[phase] > 1e-4) {
        std::printf("phase %zu %.0f, ", phase, rate(totals.phases[phase]));
      }
    }
    std::printf("pack %.0f; %.0f nnz a row, %.2f bytes packed, %.2f read a nnz\n",
                rate(totals.pack),
                static_cast<double>(totals.nonzeros) / static_cast<double>(totals.rows),
                static_cast<double>(totals.packed_bytes) / static_cast<double>(totals.nonzeros),
                static_cast<double>(totals.bytes_read) / static_cast<double>(totals.nonzeros));
  }
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    return run(count, arguments);
  } catch (const penstock::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
