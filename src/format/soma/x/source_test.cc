#include "format/soma/x/source.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "base/testing/test_seed.h"
#include "format/soma/x/golden_case.h"
#include "format/soma/x/unit_decode.h"

namespace penstock::format::soma {
namespace {

/// All columns; for very wide arrays those that have cells and some that have none.
std::vector<int64_t> all_columns(const XGoldenCase& golden) {
  std::vector<int64_t> columns;
  if (golden.columns <= 300000) {
    columns.resize(static_cast<size_t>(golden.columns));
    std::iota(columns.begin(), columns.end(), int64_t{0});
    return columns;
  }
  columns = golden.expected.columns;
  for (int64_t i = 0; i < 100; ++i) columns.push_back(i * 7919);
  std::sort(columns.begin(), columns.end());
  columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
  return columns;
}

std::vector<int64_t> all_rows(const XGoldenCase& golden) {
  std::vector<int64_t> rows(static_cast<size_t>(golden.rows));
  std::iota(rows.begin(), rows.end(), int64_t{0});
  return rows;
}

std::vector<int64_t> some_of(const std::vector<int64_t>& all, double share, std::mt19937& random) {
  std::vector<int64_t> chosen;
  std::bernoulli_distribution choose_one(share);
  std::copy_if(all.begin(), all.end(), std::back_inserter(chosen),
               [&](int64_t) { return choose_one(random); });
  return chosen;
}

class XGolden : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    golden_ = load_golden(GetParam());
    source_ = open_x_source(golden_.store, "array", golden_.range, 2);
    duplicates_ = GetParam().find("duplicates") != std::string::npos ||
                  GetParam().find("same_fragment_twice") != std::string::npos;
  }

  void expect_equal(const std::vector<int64_t>& rows, const std::vector<int64_t>& columns,
                    unsigned threads) {
    const XCells wanted = choose(golden_.expected, size_of(golden_.type), rows, columns);
    const XCells got = read_matrix(*source_, rows, columns, duplicates_, threads);
    ASSERT_EQ(got.indptr, wanted.indptr);
    ASSERT_EQ(got.columns, wanted.columns);
    ASSERT_TRUE(got.values == wanted.values);
  }

  XGoldenCase golden_;
  MatrixSourcePtr source_;
  bool duplicates_ = false;
};

TEST_P(XGolden, KnowsItsShape) {
  EXPECT_EQ(source_->info().row_domain_end, golden_.rows);
  EXPECT_EQ(source_->info().column_domain_end, golden_.columns);
  EXPECT_EQ(source_->info().value_type, golden_.type);
  int64_t row = 0;
  for (const auto& unit : source_->units()) {
    EXPECT_EQ(unit.row_begin, row);
    EXPECT_GT(unit.row_end, unit.row_begin);
    row = unit.row_end;
  }
  EXPECT_EQ(row, golden_.rows);
}

TEST_P(XGolden, EveryRowAndColumn) { expect_equal(all_rows(golden_), all_columns(golden_), 1); }

TEST_P(XGolden, OnFourThreads) { expect_equal(all_rows(golden_), all_columns(golden_), 4); }

TEST_P(XGolden, SomeRowsSomeColumns) {
  const TestSeed seed(1);
  std::mt19937 random(seed);
  const auto rows = all_rows(golden_);
  const auto columns = all_columns(golden_);
  for (const double share : {0.02, 0.3, 0.9}) {
    expect_equal(rows, some_of(columns, share, random), 1);
    expect_equal(some_of(rows, share, random), columns, 1);
    expect_equal(some_of(rows, share, random), some_of(columns, share, random), 1);
  }
  const auto part = [](const std::vector<int64_t>& all) {
    const auto size = static_cast<std::ptrdiff_t>(all.size());
    return std::vector<int64_t>(all.begin() + size / 3, all.begin() + size * 2 / 3);
  };
  expect_equal(part(rows), part(columns), 1);  // ranges: shifted columns, no table
  expect_equal(rows, {}, 1);
}

// Loaders one after the other, and at the same time, share a reader. What other columns are does
// not matter to it.
TEST_P(XGolden, GivesTheSameReaderAgain) {
  const TestSeed seed(2);
  std::mt19937 random(seed);
  const auto columns = all_columns(golden_);
  const std::vector<int64_t> few = {columns.front(), columns.back()};
  const auto all = source_->reader(columns);
  const auto other = source_->reader(few);
  EXPECT_NE(all, other);
  EXPECT_EQ(source_->reader(columns), all);
  EXPECT_EQ(source_->reader(few), other);
  source_->reader({});
  source_->reader(std::vector<int64_t>{columns.front()});
  EXPECT_NE(source_->reader(columns), all);
  std::vector<std::thread> threads;
  threads.reserve(3);
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back(
        [&, rows = some_of(all_rows(golden_), 0.5, random)] { expect_equal(rows, columns, 1); });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(XGolden, AForkedChildHasReadersOfItsOwn) {
  const auto columns = all_columns(golden_);
  const auto reader = source_->reader(columns);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto own = source_->reader(columns);
    std::_Exit(own != reader && own != source_->reader(columns) &&
                       own->packed_bytes_per_cell() == reader->packed_bytes_per_cell()
                   ? 0
                   : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(source_->reader(columns), reader);
}

TEST_P(XGolden, CountsBytes) {
  const auto reader = source_->reader(all_columns(golden_));
  const auto all = RowSelection::range(0, golden_.rows);
  if (golden_.columns <= 300000) {
    EXPECT_EQ(reader->bytes_needed(all), source_->info().stored_bytes);
  }
  EXPECT_EQ(reader->bytes_needed(RowSelection()), 0U);
  EXPECT_GE(reader->packed_bytes_per_cell(), 0.0);
  for (uint32_t unit = 0; unit < source_->units().size(); ++unit) {
    EXPECT_GE(reader->in_flight_bytes(unit), source_->units()[unit].stored_bytes);
  }
}

TEST_P(XGolden, AUnitHoldsWhatWasCounted) {
  // A sample of a few tiny tiles tells little.
  if (source_->info().stored_cells < 32 * source_->info().tile_count) return;
  const auto columns = all_columns(golden_);
  const auto reader = source_->reader(columns);
  for (uint32_t unit = 0; unit < source_->units().size(); ++unit) {
    const plan::FetchUnit& place = source_->units()[unit];
    if (place.row_end - place.row_begin > 100000) continue;
    std::vector<int64_t> rows(static_cast<size_t>(place.row_end - place.row_begin));
    std::iota(rows.begin(), rows.end(), place.row_begin);
    const auto decode = reader->start(unit, rows, nullptr);
    decode->fetch();
    for (size_t phase = 0; phase < decode->phase_count(); ++phase) {
      for (size_t task = 0; task < decode->task_count(phase); ++task) decode->run(phase, task);
    }
    const auto* sparse = dynamic_cast<const XUnitDecode*>(decode.get());
    if (sparse == nullptr) continue;
    const uint64_t counted = reader->in_flight_bytes(unit);
    // Averages of a sample: a unit of a few cells may differ.
    EXPECT_LE(sparse->memory_bytes(), counted + counted / 8 + 2048) << "unit " << unit;
    EXPECT_EQ(reader->in_flight_bytes(unit), counted);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, XGolden, testing::ValuesIn(golden_names()),
                         [](const auto& test) { return test.param; });

// ---- damage ----

/// Opens and reads everything; an Error is fine, so are other values, a crash is not.
/// Returns whether an error was seen.
bool survives(const std::shared_ptr<io::MemoryStore>& store, const XGoldenCase& golden) {
  try {
    const auto source = open_x_source(store, "array", golden.range, 1);
    const auto& info = source->info();
    std::vector<int64_t> rows, columns;
    for (int64_t i = 0; i < std::min<int64_t>(info.row_domain_end, 400); ++i) rows.push_back(i);
    for (int64_t i = 0; i < std::min<int64_t>(info.column_domain_end, 400); ++i) {
      columns.push_back(i);
    }
    read_matrix(*source, rows, columns, true);
    return false;
  } catch (const Error& error) {
    EXPECT_NE(error.code(), ErrorCode::kInternal) << error.what();
    return true;
  }
}

std::shared_ptr<io::MemoryStore> copy_of(const io::MemoryStore& store) {
  auto copy = std::make_shared<io::MemoryStore>();
  copy->copy_tree(store, "array");
  return copy;
}

std::vector<std::byte> bytes_of(const io::MemoryStore& store, const std::string& path) {
  const Buffer all = store.read_all(path);
  return {all.span().begin(), all.span().end()};
}

class XDamage : public testing::TestWithParam<std::string> {};

TEST_P(XDamage, TruncatedFilesAreErrors) {
  const XGoldenCase golden = load_golden(GetParam());
  const TestSeed seed(2);
  std::mt19937 random(seed);
  for (const std::string& path : golden.store->paths()) {
    const bool data =
        path.find("/__fragments/") != std::string::npos &&
        (path.find("/d") != std::string::npos || path.find("/a") != std::string::npos);
    const uint64_t size = golden.store->size_bytes(path);
    for (int i = 0; i < 12 && size != 0; ++i) {
      const auto store = copy_of(*golden.store);
      store->truncate(path, i == 0 ? size - 1 : random() % size);
      const bool failed = survives(store, golden);
      if (data && path.ends_with(".tdb") && !path.ends_with("dci.tdb")) {
        EXPECT_TRUE(failed) << path;
      }
    }
  }
}

TEST_P(XDamage, FlippedBytesDoNotCrash) {
  const XGoldenCase golden = load_golden(GetParam());
  const TestSeed seed(3);
  std::mt19937 random(seed);
  for (const std::string& path : golden.store->paths()) {
    const auto original = bytes_of(*golden.store, path);
    if (original.empty()) continue;
    const auto store = copy_of(*golden.store);
    for (int i = 0; i < 40; ++i) {
      auto damaged = original;
      const size_t at = random() % damaged.size();
      damaged[at] ^= std::byte{static_cast<uint8_t>(1U << (random() % 8))};
      store->put(path, damaged);
      survives(store, golden);
    }
    store->put(path, original);
  }
}

TEST_P(XDamage, MissingFilesAreErrors) {
  const XGoldenCase golden = load_golden(GetParam());
  for (const std::string& path : golden.store->paths()) {
    const auto store = copy_of(*golden.store);
    store->remove(path);
    const bool failed = survives(store, golden);
    // Without the list of processed conditions they are applied again; times settle duplicates
    // alone.
    if (path.ends_with(".tdb") && !path.ends_with("dci.tdb") && !path.ends_with("/t.tdb")) {
      EXPECT_TRUE(failed) << path;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, XDamage,
                         testing::Values("census", "default_soma", "normalized", "hilbert",
                                         "filter_checksums", "filter_windows", "filter_none",
                                         "deletes_of_all_kinds", "consolidated",
                                         "dense_overlapping"),
                         [](const auto& test) { return test.param; });

// ---- arguments ----

TEST(XSource, RefusesBadArguments) {
  const XGoldenCase golden = load_golden("census");
  const auto source = open_x_source(golden.store, "array");
  EXPECT_THROW(source->reader(std::vector<int64_t>{3, 2}), InvalidArgument);
  EXPECT_THROW(source->reader(std::vector<int64_t>{2, 2}), InvalidArgument);
  EXPECT_THROW(source->reader(std::vector<int64_t>{-1}), InvalidArgument);
  EXPECT_THROW(source->reader(std::vector<int64_t>{golden.columns}), InvalidArgument);
  const auto reader = source->reader(std::vector<int64_t>{1, 2});
  EXPECT_THROW(reader->start(1000, {1}, nullptr), InvalidArgument);
  EXPECT_THROW(reader->start(0, {golden.rows}, nullptr), InvalidArgument);
  EXPECT_THROW(reader->start(0, {2, 1}, nullptr), InvalidArgument);
  EXPECT_THROW(open_x_source(golden.store, "nowhere"), NotFound);
}

}  // namespace
}  // namespace penstock::format::soma
