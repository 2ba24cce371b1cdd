#include "format/cache/cached_source.h"

#include <gtest/gtest.h>
#include <penstock/cache.h>
#include <penstock/error.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/testing/test_seed.h"
#include "format/cache/testing/cached_source_fixture.h"
#include "io/descriptor_cache.h"
#include "io/file_store.h"
#include "kernel/pack_row.h"

namespace penstock::format::pack {
namespace {

namespace fs = std::filesystem;
using testing::CachedSourceTest;
using testing::entries_of;
using testing::make_packed_rows;
using testing::PackedRows;
using testing::TemporaryFolder;

TEST_F(CachedSourceTest, TheSecondTimeNothingIsReadFromTheSource) {
  const auto cached = source(folder());
  const Read first = read(*cached);
  EXPECT_GT(first.from_source, 0U);
  EXPECT_EQ(first.from_cache, 0U);
  EXPECT_EQ(kept().size(), cached->units().size());
  const Read second = read(*cached);
  EXPECT_EQ(second.from_source, 0U);
  EXPECT_GT(second.from_cache, 0U);
  // Another run, other columns.
  columns = {0, 5, 299};
  EXPECT_EQ(read(*source(folder())).from_source, 0U);
}

TEST_F(CachedSourceTest, RowsOfAUnitComeTogether) {
  const auto cached = source(folder());
  EXPECT_GT(read(*cached, 2, 0).from_source, 0U);
  EXPECT_EQ(read(*source(folder()), 2, 0).from_source, 0U);
  EXPECT_GT(read(*cached, 2, 1).from_source, 0U);
  EXPECT_EQ(read(*cached).from_source, 0U);
  EXPECT_EQ(read(*source(folder())).from_source, 0U);
  EXPECT_EQ(kept().size(), cached->units().size());
}

TEST_F(CachedSourceTest, OtherContentIsAnotherKey) {
  read(*source(folder()));
  const TemporaryFolder elsewhere;
  const PackedRows other = make_packed_rows(elsewhere, {}, 22);
  std::swap(made.files, const_cast<PackedRows&>(other).files);
  made.rows = other.rows;
  EXPECT_GT(read(*source(folder())).from_source, 0U);
}

TEST_F(CachedSourceTest, AFlippedByteIsFetchedAgain) {
  read(*source(folder()));
  const TestSeed seed(1);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 20; ++round) {
    const auto files = kept();
    const fs::path path = files[random() % files.size()];
    const auto at = static_cast<std::streamoff>(random() % fs::file_size(path));
    {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(at);
      const char byte = static_cast<char>(file.get() ^ 32);
      file.seekp(at);
      file.put(byte);
    }
    const auto cached = source(folder());
    EXPECT_GT(read(*cached).from_source + read(*cached).from_cache, 0U);
    EXPECT_EQ(read(*cached).from_source, 0U);
    EXPECT_FALSE(fs::exists(path));
  }
}

TEST_F(CachedSourceTest, FilesThatVanishAreFetchedAgain) {
  const auto cached = source(folder());
  read(*cached);
  fs::remove_all(cache_folder.file("cache"));
  for (const auto& file : kept()) io::forget_descriptor(file);
  EXPECT_EQ(kept().size(), 0U);
  read(*cached);
  read(*source(folder()));
  EXPECT_EQ(read(*source(folder())).from_source, 0U);
}

// Another process that makes room removes a unit's folder with its last file: also one that has no
// file yet.
TEST_F(CachedSourceTest, FoldersMayVanishBeforeTheyAreUsed) {
  const auto cache = folder();
  read(*source(cache));
  std::vector<std::string> unit_folders;
  for (const auto& file : kept()) unit_folders.push_back(file.parent_path());
  // A writer that lost a folder tries again, up to 1,000 times. Fewer are taken from it here, so
  // that it succeeds at last however the threads are scheduled.
  constexpr int kMostRemoved = 300;
  std::atomic<bool> ends = false;
  std::atomic<int> removed = 0;
  std::thread other([&] {
    while (!ends && removed < kMostRemoved) {
      for (const auto& each : unit_folders) {
        if (::rmdir(each.c_str()) == 0) ++removed;  // an empty folder
      }
    }
  });
  for (int round = 0; round < 30 || (removed == 0 && round < 3000); ++round) {
    std::error_code ignored;
    for (const auto& each : unit_folders) fs::remove_all(each, ignored);
    EXPECT_NO_THROW(read(*source(cache)));
  }
  ends = true;
  other.join();
  EXPECT_GT(removed, 0);
  EXPECT_EQ(cache->problem(), "");
  read(*source(cache));
  EXPECT_EQ(read(*source(cache)).from_source, 0U);
}

TEST_F(CachedSourceTest, ADamagedRecordIsNotCarriedOn) {
  read(*source(folder()), 2, 0);
  for (const auto& path : kept()) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(400);
    file.write("harmharmharm", 12);
  }
  const auto harmed = kept();
  read(*source(folder()), 2, 1);
  for (const auto& path : kept()) {
    if (std::count(harmed.begin(), harmed.end(), path) != 0) continue;
    const auto file = RowFile::open(io::file_store(), path);
    const RowFileFacts& facts = file->facts();
    const RowDecoder decoder(kernel::make_row_layout(facts.column_count, facts.value_type),
                             facts.column_count);
    for (uint64_t i = 0; i < file->rows().size(); ++i) {
      std::vector<std::byte> record(file->place(i).length);
      file->read(file->place(i).offset, record);
      EXPECT_TRUE(decoder.intact(record)) << path << " " << file->rows().at(i);
    }
  }
  read(*source(folder()));
  EXPECT_EQ(read(*source(folder())).from_source, 0U);
}

TEST_F(CachedSourceTest, WithoutAFolderTheSourceIsRead) {
  std::ofstream(cache_folder.file("cache")) << "a file";
  const auto where = folder();
  const auto cached = source(where);
  EXPECT_GT(read(*cached).from_source, 0U);
  EXPECT_NE(where->problem().find("cache"), std::string::npos);
  EXPECT_FALSE(where->is_on());
  EXPECT_GT(read(*cached).from_source, 0U);
}

TEST_F(CachedSourceTest, RowsByThemselvesOnceAllAreKept) {
  const auto cached = source(folder());
  const auto reader = cached->reader(columns);
  const auto all = RowSelection::range(0, 2000);
  EXPECT_EQ(reader->row_reader(all), nullptr);
  EXPECT_FALSE(cached->is_cached(all));
  read(*cached, 2, 0);
  EXPECT_EQ(reader->row_reader(all), nullptr);
  EXPECT_FALSE(cached->is_cached(all));
  read(*cached);
  EXPECT_TRUE(cached->is_cached(all));
  EXPECT_TRUE(source(folder())->is_cached(RowSelection::range(700, 900)));
  EXPECT_FALSE(
      source(std::make_shared<CacheFolder>(cache_folder.file("other"), 1 << 30))->is_cached(all));
  const TestSeed seed(3);
  std::mt19937_64 random(seed);
  for (const int harm : {0, 1, 2, 3}) {
    const auto rows = reader->row_reader(all);
    ASSERT_NE(rows, nullptr) << harm;
    RowBuffer buffer;
    uint64_t cached_bytes = 0;
    for (int round = 0; round < 30; ++round) {
      if (round == 10 && harm == 1) {
        for (const auto& path : kept()) {
          io::forget_descriptor(path);
          fs::remove(path);
        }
      }
      if (round == 10 && harm == 2) {
        const auto path = kept().front();
        std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(3000);
        file.write("harmharmharm", 12);
      }
      if (round == 10 && harm == 3) {  // gone, and nowhere to keep them
        for (const auto& path : kept()) io::forget_descriptor(path);
        fs::remove_all(cache_folder.file("cache"));
        std::ofstream(cache_folder.file("cache")) << "a file";
      }
      std::vector<int64_t> wanted(1 + random() % 60);
      for (int64_t& row : wanted) row = static_cast<int64_t>(random() % 2000);
      rows->prefetch(wanted);
      rows->read(wanted, buffer);
      ASSERT_EQ(buffer.row_count(), wanted.size());
      ASSERT_EQ(buffer.bytes_read + buffer.read_count, 0U) << "nothing is asked of the source";
      cached_bytes += buffer.cached_bytes;
      for (size_t i = 0; i < wanted.size(); ++i) {
        ASSERT_EQ(entries_of(buffer.records[i], rows->row_layout()), expected(wanted[i]));
      }
    }
    EXPECT_GT(cached_bytes, 0U);
    EXPECT_THROW(rows->read(std::vector<int64_t>{-1}, buffer), InvalidArgument);
    if (harm == 3) break;
    read(*source(folder()));
  }
}

TEST_F(CachedSourceTest, RowsThatTwoKeptAtOnceAreTogetherLater) {
  // The files that two ranks leave if both look before either has written.
  read(*source(folder()), 2, 0);
  const auto other = std::make_shared<CacheFolder>(cache_folder.file("other"), uint64_t{1} << 40);
  read(*source(other), 2, 1);
  const fs::path from = cache_folder.file("other");
  for (const auto& entry : fs::recursive_directory_iterator(from)) {
    if (!entry.is_regular_file() || entry.path().filename() == kCacheRoomName) continue;
    const auto to = fs::path(cache_folder.file("cache")) / fs::relative(entry.path(), from);
    fs::create_directories(to.parent_path());
    fs::copy_file(entry.path(), to);
  }
  const auto cached = source(folder());
  EXPECT_TRUE(cached->is_cached(RowSelection::range(0, 2000)));
  EXPECT_EQ(read(*cached).from_source, 0U);
  std::set<fs::path> units;
  for (const auto& path : kept()) EXPECT_TRUE(units.insert(path.parent_path()).second) << path;
}

TEST_F(CachedSourceTest, ADamagedRecordDoesNotEndThePlanning) {
  const auto cached = source(folder());
  read(*cached);
  const auto all = RowSelection::range(0, 2000);
  const double before = cached->reader(columns)->row_reader(all)->buffer_bytes_per_row();
  for (const auto& path : kept()) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(112);  // the first record, which is among those that are measured
    file.write("harmharmharm", 12);
  }
  const auto rows = cached->reader(columns)->row_reader(all);
  EXPECT_GT(rows->buffer_bytes_per_row(), before / 8);
  EXPECT_LT(rows->buffer_bytes_per_row(), before * 8);
}

TEST_F(CachedSourceTest, ThreadsAndProcessesFillOneFolder) {
  std::vector<pid_t> children;
  for (int i = 0; i < 2; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      read(*source(folder()), i + 1, 0);
      read(*source(folder()));
      ::_exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  std::vector<std::thread> threads;
  threads.reserve(3);
  const auto shared = source(folder());
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] { read(*shared, i + 1, 0); });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(read(*source(folder())).from_source, 0U);
  for (const auto& path : kept()) EXPECT_EQ(path.extension(), ".rows");
}

TEST(CachedSource, ContentMustBeKnown) {
  class Unknown final : public MatrixSource {
   public:
    const MatrixInfo& info() const override { return info_; }
    std::span<const plan::FetchUnit> units() const override { return {}; }
    std::shared_ptr<const MatrixReader> reader(std::span<const int64_t>) const override {
      return nullptr;
    }

   private:
    MatrixInfo info_;
  };
  EXPECT_THROW(
      cached_source(std::make_shared<Unknown>(), std::make_shared<CacheFolder>("cache", 1000)),
      Unsupported);
  EXPECT_THROW(Cache(CacheOptions{}), InvalidArgument);
}

}  // namespace
}  // namespace penstock::format::pack
