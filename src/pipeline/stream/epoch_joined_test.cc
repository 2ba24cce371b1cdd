#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/testing/test_seed.h"
#include "format/joined/source.h"
#include "pipeline/stream/epoch_stream.h"
#include "pipeline/stream/make_stream.h"
#include "pipeline/stream/row_stream.h"
#include "pipeline/testing/memory_matrix.h"

// Epochs over several matrices as one: every row once with its joined columns, within the budget,
// for random shapes, ranks and resume positions.

namespace penstock::pipeline {
namespace {

using testing::MemoryMatrix;
using testing::MemoryMatrixOptions;

struct Joined {
  std::vector<std::shared_ptr<MemoryMatrix>> matrices;
  std::vector<format::JoinedPart> parts;
  int64_t columns = 0;
  RowSelection rows;

  format::MatrixSourcePtr source() const { return format::join_sources(parts, columns); }
};

Joined random_join(uint64_t seed, bool addresses_rows = false) {
  std::mt19937_64 random(seed);
  Joined joined;
  // More than 65,536 columns want wider indices than the parts have.
  joined.columns = random() % 4 == 0 ? 90'000 : 40 + static_cast<int64_t>(random() % 200);
  const size_t count = 1 + random() % 4;
  int64_t offset = 0;
  for (size_t i = 0; i < count; ++i) {
    MemoryMatrixOptions options;
    options.rows = 1 + static_cast<int64_t>(random() % 600);
    options.columns = 5 + static_cast<int64_t>(random() % 100);
    options.max_unit_rows = 1 + static_cast<int64_t>(random() % 64);
    options.rare_values = random() % 3 == 0 ? 0.9 : 0.05;
    options.seed = random();
    options.addresses_rows = addresses_rows;
    joined.matrices.push_back(std::make_shared<MemoryMatrix>(options));
    std::vector<uint32_t> places(static_cast<size_t>(joined.columns));
    std::iota(places.begin(), places.end(), 0U);
    if (random() % 3 != 0) std::shuffle(places.begin(), places.end(), random);
    format::JoinedPart part{joined.matrices.back(), offset, options.rows, {}, {}};
    if (random() % 2) part.row_end = 1 + options.rows / 2;
    for (int64_t column = 0; column < options.columns; ++column) {
      if (random() % 4 == 0 || part.columns.size() == places.size()) continue;
      part.joined_columns.push_back(places[part.columns.size()]);
      part.columns.push_back(column);
    }
    for (int64_t row = 0; row < part.row_end; ++row) {
      if (random() % 5 != 0) {
        joined.rows = joined.rows | RowSelection::range(offset + row, offset + row + 1);
      }
    }
    joined.parts.push_back(std::move(part));
    offset += format::kRowsPerWord * static_cast<int64_t>(1 + random() % 2);
  }
  return joined;
}

std::vector<std::pair<int32_t, float>> expected_row(const Joined& joined, int64_t id,
                                                    const std::vector<int64_t>& chosen) {
  size_t part = joined.parts.size() - 1;
  while (joined.parts[part].row_offset > id) --part;
  const format::JoinedPart& own = joined.parts[part];
  const auto& row = joined.matrices[part]->row(id - own.row_offset);
  std::vector<std::pair<int32_t, float>> cells;
  for (size_t k = 0; k < row.columns.size(); ++k) {
    const auto at = std::lower_bound(own.columns.begin(), own.columns.end(), row.columns[k]);
    if (at == own.columns.end() || *at != row.columns[k]) continue;
    const int64_t place = own.joined_columns[static_cast<size_t>(at - own.columns.begin())];
    const auto out = std::lower_bound(chosen.begin(), chosen.end(), place);
    if (out == chosen.end() || *out != place) continue;
    cells.emplace_back(static_cast<int32_t>(out - chosen.begin()), row.values[k]);
  }
  std::stable_sort(cells.begin(), cells.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  return cells;
}

/// Row ids in the order they came; every value is checked.
std::vector<int64_t> read(const Joined& joined, const LoaderOptions& options,
                          LoaderStats* stats = nullptr) {
  const auto stream = make_stream(joined.source(), options);
  std::vector<int64_t> order;
  while (auto batch = stream->next()) {
    const auto csr = batch->csr();
    for (uint32_t i = 0; i < batch->rows(); ++i) {
      order.push_back(batch->joinids()[i]);
      EXPECT_EQ(joined.rows.at(static_cast<uint64_t>(batch->positions()[i])), order.back());
      const auto expected = expected_row(joined, order.back(), *options.columns);
      const auto begin = static_cast<size_t>(csr.indptr[i]);
      std::vector<std::pair<int32_t, float>> found;
      for (size_t k = begin; k < static_cast<size_t>(csr.indptr[i + 1]); ++k) {
        found.emplace_back(csr.indices[k], reinterpret_cast<const float*>(csr.data)[k]);
      }
      EXPECT_EQ(found, expected);
      if (::testing::Test::HasFailure()) return order;
    }
  }
  if (stats != nullptr) *stats = stream->stats();
  return order;
}

LoaderOptions random_options(const Joined& joined, uint64_t seed) {
  std::mt19937_64 random(seed * 7919);
  LoaderOptions options;
  options.rows = joined.rows;
  options.columns.emplace();
  for (int64_t column = 0; column < joined.columns; ++column) {
    if (random() % 8 != 0) options.columns->push_back(column);
  }
  options.batch_size = 1 + static_cast<uint32_t>(random() % 100);
  options.seed = seed;
  options.threads = 1 + static_cast<unsigned>(seed % 3);
  options.memory_budget = 16_MiB;
  return options;
}

TEST(EpochJoined, EveryRowOnceWithItsColumns) {
  for (uint64_t number = 1; number <= 80; ++number) {
    const TestSeed seed(number);
    const Joined joined = random_join(seed);
    const LoaderOptions options = random_options(joined, seed);
    LoaderStats stats;
    auto order = read(joined, options, &stats);
    std::sort(order.begin(), order.end());
    ASSERT_EQ(order, joined.rows.to_vector());
    ASSERT_LE(stats.peak_buffered_bytes, options.memory_budget);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(EpochJoined, RanksShareTheRowsAndAnEpochGoesOn) {
  for (uint64_t number = 1; number <= 30; ++number) {
    const TestSeed seed(number);
    const Joined joined = random_join(seed);
    LoaderOptions options = random_options(joined, seed);
    options.uneven = UnevenRows::kExact;
    options.world_size = 1 + static_cast<uint32_t>(seed % 3);
    std::vector<int64_t> all;
    for (uint32_t rank = 0; rank < options.world_size; ++rank) {
      options.rank = rank;
      options.first_batch = 0;
      const auto whole = read(joined, options);
      all.insert(all.end(), whole.begin(), whole.end());
      EpochStream stream(joined.source(), options);
      options.first_batch = stream.size() / 2;
      const auto rest = read(joined, options);
      ASSERT_LE(rest.size(), whole.size());
      ASSERT_TRUE(std::equal(rest.rbegin(), rest.rend(), whole.rbegin()));
    }
    std::sort(all.begin(), all.end());
    ASSERT_EQ(all, joined.rows.to_vector());
    if (::testing::Test::HasFailure()) return;
  }
}

/// Estimates of a joined reader, before any read, equal those of the readers of its parts.
TEST(EpochJoined, ReaderTellsWhatThePartsTell) {
  for (uint64_t number = 1; number <= 60; ++number) {
    const TestSeed seed(number);
    const Joined joined = random_join(seed);
    const auto source = joined.source();
    std::vector<int64_t> all(static_cast<size_t>(joined.columns));
    std::iota(all.begin(), all.end(), int64_t{0});
    const auto reader = source->reader(all);
    uint32_t unit = 0;
    uint64_t bytes = 0;
    double most = 0;
    EXPECT_EQ(source->info().value_type, DataType::kFloat32);
    EXPECT_EQ(source->info().row_domain_end,
              joined.parts.back().row_offset + joined.parts.back().row_end);
    for (const format::JoinedPart& part : joined.parts) {
      const auto own = part.source->reader(part.columns);
      const RowSelection rows =
          joined.rows & RowSelection::range(part.row_offset, part.row_offset + part.row_end);
      bytes += own->bytes_needed(rows.shifted(-part.row_offset));
      const double packed = own->packed_bytes_per_cell();
      const auto units = part.source->units();
      for (uint32_t i = 0; i < units.size() && units[i].row_begin < part.row_end; ++i, ++unit) {
        const plan::FetchUnit& found = source->units()[unit];
        ASSERT_EQ(found.row_begin, units[i].row_begin + part.row_offset);
        ASSERT_EQ(found.row_end, std::min(units[i].row_end, part.row_end) + part.row_offset);
        ASSERT_EQ(reader->in_flight_bytes(unit), own->in_flight_bytes(i));
        const double told = reader->packed_bytes_per_cell_of(unit);
        // Wider indices take more: 5 bytes for 3 where values are codes, 8 for 6 where not.
        if (joined.columns > 65'536) {
          ASSERT_DOUBLE_EQ(told, packed * (5.0 / 3.0));
        } else {
          ASSERT_DOUBLE_EQ(told, packed);
        }
        most = std::max(most, told);
      }
    }
    ASSERT_EQ(unit, source->units().size());
    EXPECT_EQ(reader->bytes_needed(joined.rows), bytes);
    EXPECT_DOUBLE_EQ(reader->packed_bytes_per_cell(), most);
    EXPECT_THROW(reader->in_flight_bytes(unit), InvalidArgument);
  }
}

TEST(EpochJoined, RowsOneByOneComeInTheOrderOfUnits) {
  for (uint64_t number = 1; number <= 60; ++number) {
    const TestSeed seed(number);
    const Joined by_rows = random_join(seed, true), by_units = random_join(seed, false);
    LoaderOptions options = random_options(by_rows, seed);
    options.order = GlobalShuffle{};
    EXPECT_NO_THROW(RowStream(by_rows.source(), options));
    EXPECT_THROW(RowStream(by_units.source(), options), InvalidArgument);
    LoaderStats stats;
    const auto order = read(by_rows, options, &stats);
    ASSERT_EQ(read(by_units, options), order);
    ASSERT_EQ(order.size(), by_rows.rows.size());
    ASSERT_EQ(stats.bytes_read, stats.bytes_needed);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(EpochJoined, WhatDoesNotFitIsRefused) {
  const auto matrix = std::make_shared<MemoryMatrix>(MemoryMatrixOptions{});
  const auto join = [&](std::vector<format::JoinedPart> parts) {
    return format::join_sources(std::move(parts), 3);
  };
  EXPECT_THROW(join({}), InvalidArgument);
  EXPECT_THROW(join({{matrix, 1, 10, {0}, {0}}}), InvalidArgument);
  EXPECT_THROW(join({{matrix, 0, 10, {0}, {0}}, {matrix, 0, 10, {0}, {0}}}), InvalidArgument);
  EXPECT_THROW(join({{matrix, 0, 10, {0}, {3}}}), InvalidArgument);
  EXPECT_THROW(join({{matrix, 0, 10, {0, 1}, {2, 2}}}), InvalidArgument);
  EXPECT_THROW(join({{matrix, 0, 10, {0, 1}, {2}}}), InvalidArgument);
  const auto joined = join({{matrix, 0, 10, {0}, {2}}});
  const std::vector<int64_t> outside = {3};
  EXPECT_THROW(joined->reader(outside), InvalidArgument);
}

}  // namespace
}  // namespace penstock::pipeline
