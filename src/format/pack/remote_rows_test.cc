#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/testing/test_seed.h"
#include "format/pack/reader.h"
#include "format/pack/record_runs.h"
#include "format/pack/testing/packed_rows.h"
#include "io/file_store.h"

// Packs in a store where every read is a round trip: counts reads and their bytes.

namespace penstock::format::pack {
namespace {

using testing::entries_of;
using testing::make_packed_rows;
using testing::PackedRows;
using testing::TemporaryFolder;

/// Local files as a remote store that counts reads.
class DistantStore final : public io::Store {
 public:
  std::vector<io::DirectoryEntry> list(const std::string& at) const override {
    return files_->list(at);
  }
  bool exists(const std::string& path) const override { return files_->exists(path); }
  bool is_directory(const std::string& path) const override { return files_->is_directory(path); }
  uint64_t size_bytes(const std::string& path) const override { return files_->size_bytes(path); }
  void read(const std::string& path, uint64_t offset, std::span<std::byte> out) const override {
    files_->read(path, offset, out);
    for (const auto& each : announced_) {
      if (each.path == path && each.range.offset <= offset &&
          offset + out.size() <= each.range.end()) {
        return;
      }
    }
    ++rounds;
    bytes += out.size();
  }
  void read_many(std::span<const io::ReadRequest> reads) const override {
    ++rounds;
    for (const auto& each : reads) {
      files_->read(each.path, each.offset, each.out);
      bytes += each.out.size();
    }
  }
  io::StoreTraits traits() const override {
    io::StoreTraits traits;
    traits.remote = true;
    traits.coalescing = coalescing;
    return traits;
  }
  void will_read(std::span<const io::ObjectRange> ranges) const override {
    ++rounds;
    announced_.insert(announced_.end(), ranges.begin(), ranges.end());
  }

  mutable std::atomic<uint64_t> rounds{0};
  mutable std::atomic<uint64_t> bytes{0};
  io::CoalescingOptions coalescing{.max_gap_bytes = 256 << 10, .max_waste_share = 0.06};

 private:
  io::StorePtr files_ = io::file_store();
  mutable std::vector<io::ObjectRange> announced_;
};

struct DistantPack {
  TemporaryFolder folder;
  PackedRows made;
  std::shared_ptr<DistantStore> store = std::make_shared<DistantStore>();
  MatrixSourcePtr source;

  DistantPack()
      : made(make_packed_rows(folder, {.row_count = 6000, .rows_per_file = 500, .gaps = false},
                              31)) {
    std::vector<std::string> paths;
    for (const auto& file : made.files) paths.push_back(file->path());
    RowFile::announce(*store, paths);
    std::vector<std::shared_ptr<const RowFile>> files;
    files.reserve(paths.size());
    for (const auto& path : paths) files.push_back(RowFile::open(store, path));
    source = open_layer(make_layer(std::move(files), made.info));
  }
};

TEST(RemotePack, OpensInTwoRoundsWhateverTheNumberOfFiles) {
  const DistantPack pack;
  ASSERT_GE(pack.made.files.size(), 12U);
  EXPECT_EQ(pack.store->rounds, 2U);
}

TEST(RemotePack, AnnouncesNothingOfADisk) {
  const TemporaryFolder folder;
  const std::vector<std::string> paths = {folder.file("nothing.rows")};
  RowFile::announce(*io::file_store(), paths);
}

TEST(RemotePack, ABatchIsOneRoundAndReadsLittleForNothing) {
  const DistantPack pack;
  const auto reader = pack.source->reader(std::vector<int64_t>{0, 7, 250});
  EXPECT_TRUE(reader->remote());
  const auto all = RowSelection::range(0, 6000);
  const auto rows = reader->row_reader(all);
  EXPECT_EQ(rows->request_bytes(), uint64_t{256} << 10);
  const auto local = open_layer(make_layer(pack.made.files, pack.made.info))
                         ->reader(std::vector<int64_t>{0, 7, 250})
                         ->row_reader(all);
  EXPECT_EQ(local->request_bytes(), 0U);
  const TestSeed seed(5);
  std::mt19937_64 random(seed);
  RowBuffer buffer;
  RowBuffer other;
  uint64_t needed = 0;
  uint64_t bytes_read = 0;
  for (int batch = 0; batch < 20; ++batch) {
    std::vector<int64_t> wanted(100);
    for (int64_t& row : wanted) row = static_cast<int64_t>(random() % 6000);
    const uint64_t rounds = pack.store->rounds;
    const uint64_t bytes = pack.store->bytes;
    rows->prefetch(wanted);  // asks for nothing: the batch is a round by itself
    rows->read(wanted, buffer);
    EXPECT_EQ(pack.store->rounds - rounds, 1U);
    EXPECT_EQ(buffer.bytes_read, pack.store->bytes - bytes);
    EXPECT_GT(buffer.read_count, 1U);
    EXPECT_LE(buffer.read_count, 100U);
    local->read(wanted, other);
    for (size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_EQ(entries_of(buffer.records[i], rows->row_layout()),
                entries_of(other.records[i], local->row_layout()));
    }
    bytes_read += buffer.bytes_read;
    std::sort(wanted.begin(), wanted.end());
    wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
    needed += rows->bytes_needed(wanted);
  }
  // The share of waste, and gaps of less than a page, which are always read over.
  EXPECT_LE(static_cast<double>(bytes_read),
            static_cast<double>(needed) * 1.07 + 20 * 100 * 4096.0);
}

TEST(RemotePack, AUnitIsOneRound) {
  const DistantPack pack;
  const auto reader = pack.source->reader(std::vector<int64_t>{1, 2});
  const uint64_t before = pack.store->rounds;
  EXPECT_GT(reader->packed_bytes_per_cell(), 0);
  EXPECT_GT(pack.source->reader(std::vector<int64_t>{5})->packed_bytes_per_cell(), 0);
  EXPECT_EQ(pack.store->rounds - before, 1U) << "rows to measure, all at once and only once";
  std::unique_ptr<UnitDecode> decode;
  for (uint32_t unit = 0; unit < pack.source->units().size(); ++unit) {
    const plan::FetchUnit& place = pack.source->units()[unit];
    std::vector<int64_t> rows;
    for (int64_t row = place.row_begin; row < place.row_end; row += 7) rows.push_back(row);
    const uint64_t rounds = pack.store->rounds;
    decode = reader->start(unit, rows, std::move(decode));
    decode->fetch();
    EXPECT_EQ(pack.store->rounds - rounds, 1U);
    EXPECT_GT(decode->read_count(), 0U);
    EXPECT_GT(decode->bytes_read(), 0U);
  }
}

TEST(RemotePack, GapsAreThoseOfTheStore) {
  DistantPack pack;
  std::vector<RowLocation> sorted;
  uint64_t wanted = 0;
  const auto& file = *pack.made.files.front();
  for (uint64_t i = 0; i < file.rows().size(); i += 60) {
    if (file.place(i).length == 0) continue;
    sorted.push_back({0, file.place(i)});
    wanted += file.place(i).length;
  }
  ASSERT_GT(sorted.size(), 5U);
  const auto remote = RowFile::open(pack.store, file.path());
  const auto total = [&](const std::vector<RecordRun>& runs) {
    uint64_t bytes = 0;
    size_t next = 0;
    for (const RecordRun& run : runs) {
      bytes += run.length;
      EXPECT_EQ(run.begin, next);
      next = run.end;
      for (size_t i = run.begin; i < run.end; ++i) {
        EXPECT_GE(sorted[i].place.offset, run.offset);
        EXPECT_LE(sorted[i].place.offset + sorted[i].place.length, run.offset + run.length);
      }
    }
    EXPECT_EQ(next, sorted.size());
    return bytes;
  };
  pack.store->coalescing = {.max_gap_bytes = 1 << 20, .max_waste_share = 0, .always_gap_bytes = 0};
  const std::vector<std::shared_ptr<const RowFile>> files = {remote};
  EXPECT_EQ(total(runs_of(sorted, files, 1 << 20)), wanted) << "nothing is read for nothing";
  pack.store->coalescing = {.max_gap_bytes = 1 << 20};
  EXPECT_EQ(runs_of(sorted, files, 0).size(), 1U);
  const std::vector<std::shared_ptr<const RowFile>> local = {pack.made.files.front()};
  EXPECT_EQ(total(runs_of(sorted, local, 0)), wanted);
  EXPECT_EQ(runs_of(sorted, local, 1 << 20).size(), 1U);
}

}  // namespace
}  // namespace penstock::format::pack
