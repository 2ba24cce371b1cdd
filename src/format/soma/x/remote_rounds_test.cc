#include <gtest/gtest.h>

#include "base/testing/test_data.h"
#include "format/soma/x/golden_case.h"
#include "format/soma/x/source.h"
#include "format/tiledb/directory/prefetch.h"
#include "format/tiledb/reader/array_reader.h"
#include "io/file_store.h"
#include "io/remote/remote_store.h"

// Counts requests that wait for one another when data are opened from a remote store. With one
// thread every call of the source is such a round trip.

namespace penstock::format::soma {
namespace {

/// A local store as a remote source that counts calls.
class CountingSource final : public io::ObjectSource {
 public:
  explicit CountingSource(io::StorePtr store) : store_(std::move(store)) {}

  io::RemoteListing list_tree(const std::string& directory, size_t) const override {
    ++rounds;
    io::RemoteListing listing;
    add(directory, listing);
    return listing;
  }
  io::RemoteListing list_folder(const std::string& directory) const override {
    ++rounds;
    io::RemoteListing listing;
    for (const auto& entry : store_->list(directory)) {
      const std::string path = io::join(directory, entry.name);
      if (entry.is_directory) {
        listing.folders.push_back(path);
      } else {
        listing.objects.push_back({path, entry.size_bytes, ""});
      }
    }
    return listing;
  }
  void read(std::span<io::RemoteRead> reads) const override {
    ++rounds;
    for (const auto& read : reads) store_->read(read.object.path, read.offset, read.out);
  }

  mutable std::atomic<int> rounds{0};

 private:
  void add(const std::string& directory, io::RemoteListing& listing) const {
    for (const auto& entry : store_->list(directory)) {
      const std::string path = io::join(directory, entry.name);
      if (entry.is_directory) {
        add(path, listing);
      } else {
        listing.objects.push_back({path, entry.size_bytes, ""});
      }
    }
  }
  io::StorePtr store_;
};

class RemoteRounds : public testing::TestWithParam<std::string> {};

TEST_P(RemoteRounds, OfAMatrix) {
  const XGoldenCase golden = load_golden(GetParam());
  const auto counting = std::make_shared<CountingSource>(golden.store);
  const auto store = std::make_shared<io::RemoteStore>(counting);
  tiledb::prefetch_metadata(*store, "array");
  EXPECT_EQ(counting->rounds, 2);  // the listing; the small metadata
  const auto source = open_x_source(store, "array", golden.range, 1);
  EXPECT_LE(counting->rounds, 3);  // lists of tiles, where they are not among the small ones
  std::vector<int64_t> columns = golden.expected.columns;
  std::sort(columns.begin(), columns.end());
  columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
  const auto reader = source->reader(columns);
  reader->packed_bytes_per_cell();
  EXPECT_LE(counting->rounds, 4);  // tiles of the estimate
  EXPECT_TRUE(reader->remote());
  for (uint32_t unit = 0; unit < source->units().size(); ++unit) {
    const auto& place = source->units()[unit];
    std::vector<int64_t> rows;
    for (int64_t row = place.row_begin; row < std::min(place.row_end, place.row_begin + 5000);
         ++row) {
      rows.push_back(row);
    }
    const int before = counting->rounds;
    auto decode = reader->start(unit, rows, nullptr);
    decode->fetch();
    EXPECT_LE(counting->rounds - before, 1) << unit;
    EXPECT_LE(decode->bytes_read(), reader->fetched_bytes(unit)) << unit;
  }
}

// Every golden matrix by way of a remote store: the same cells.
TEST_P(RemoteRounds, TheCellsAreThoseOfTheFile) {
  const XGoldenCase golden = load_golden(GetParam());
  const auto store =
      std::make_shared<io::RemoteStore>(std::make_shared<CountingSource>(golden.store));
  const auto remote = open_x_source(store, "array", golden.range, 1);
  const auto local = open_x_source(golden.store, "array", golden.range, 1);
  std::vector<int64_t> rows;
  for (int64_t row = 0; row < std::min<int64_t>(golden.rows, 3000); ++row) rows.push_back(row);
  std::vector<int64_t> columns = golden.expected.columns;
  std::sort(columns.begin(), columns.end());
  columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
  const bool duplicates = GetParam().find("duplicates") != std::string::npos ||
                          GetParam().find("same_fragment_twice") != std::string::npos;
  const XCells wanted = read_matrix(*local, rows, columns, duplicates, 1);
  const XCells got = read_matrix(*remote, rows, columns, duplicates, 1);
  EXPECT_EQ(got.indptr, wanted.indptr);
  EXPECT_EQ(got.columns, wanted.columns);
  EXPECT_TRUE(got.values == wanted.values);
}

INSTANTIATE_TEST_SUITE_P(Cases, RemoteRounds,
                         testing::Values("census", "capacity_3", "consolidated",
                                         "consolidated_and_older_duplicates", "column_major_cells"),
                         [](const auto& golden) { return golden.param; });

TEST(RemoteRoundsOfTables, TwoForWhatIsAskedFor) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> tables = {
      {"enumerated", {"soma_joinid", "cell_type"}}, {"types", {}}};
  for (const auto& [name, columns] : tables) {
    const std::string path = test_data("tiledb_golden/" + name);
    const auto counting = std::make_shared<CountingSource>(io::file_store());
    const auto store = std::make_shared<io::RemoteStore>(counting);
    tiledb::prefetch_metadata(*store, path);
    EXPECT_EQ(counting->rounds, 2) << name;
    const auto reader = tiledb::ArrayReader::open(store, path, {}, 1);
    reader->columns();
    EXPECT_EQ(counting->rounds, 2) << name;
    const auto local = tiledb::ArrayReader::open(io::file_store(), path, {}, 1);
    const Table got = reader->read({.columns = columns});
    EXPECT_LE(counting->rounds, 4) << name;  // lists of tiles; tiles
    const Table wanted = local->read({.columns = columns});
    ASSERT_EQ(got.row_count, wanted.row_count);
    for (size_t i = 0; i < got.columns.size(); ++i) {
      EXPECT_TRUE(got.columns[i].data == wanted.columns[i].data) << got.columns[i].name;
    }
  }
}

}  // namespace
}  // namespace penstock::format::soma
