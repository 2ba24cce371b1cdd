#include "format/pack/cached_source.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <penstock/cache.h>
#include <penstock/error.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <fstream>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "format/pack/testing/packed_rows.h"
#include "io/descriptor_cache.h"
#include "io/file_store.h"
#include "kernel/pack_row.h"

namespace penstock::format::pack {
namespace {

namespace fs = std::filesystem;
using testing::chosen;
using testing::Entries;
using testing::entries_of;
using testing::make_packed_rows;
using testing::PackedRows;
using testing::TemporaryFolder;

/// A source on disk, and a cache beside it.
class CachedSourceTest : public ::testing::Test {
 protected:
  CachedSourceTest() : made(make_packed_rows(source_folder, {}, 21)) {
    for (int64_t c = 0; c < made.info.column_domain_end; c += 2) columns.push_back(c);
  }

  /// With a limit it does not matter how full this machine's disk is.
  std::shared_ptr<CacheFolder> folder(uint64_t limit = uint64_t{1} << 40) const {
    return std::make_shared<CacheFolder>(cache_folder.file("cache"), limit);
  }
  MatrixSourcePtr source(std::shared_ptr<CacheFolder> in) const {
    return cached_source(open_layer(make_layer(made.files, made.info)), std::move(in));
  }

  struct Read {
    uint64_t from_source = 0;
    uint64_t from_cache = 0;
  };

  /// Every row whose id is `rest` modulo `every`, checked.
  Read read(const MatrixSource& cached, int64_t every = 1, int64_t rest = 0) const {
    const auto reader = cached.reader(columns);
    Read read;
    std::unique_ptr<UnitDecode> decode;
    for (uint32_t unit = 0; unit < cached.units().size(); ++unit) {
      std::vector<int64_t> rows;
      const auto& place = cached.units()[unit];
      for (int64_t row = place.row_begin; row < place.row_end; ++row) {
        if (row % every == rest) rows.push_back(row);
      }
      decode = reader->start(unit, rows, std::move(decode));
      decode->fetch();
      for (size_t phase = 0; phase < decode->phase_count(); ++phase) {
        for (size_t task = 0; task < decode->task_count(phase); ++task) decode->run(phase, task);
      }
      for (uint32_t i = 0; i < rows.size(); ++i) {
        std::vector<std::byte> record(decode->packed_bytes(i));
        decode->pack(i, record.data());
        EXPECT_EQ(entries_of(record.data(), reader->row_layout()), expected(rows[i])) << rows[i];
        EXPECT_EQ(decode->nnz(i), expected(rows[i]).size());
      }
      read.from_source += decode->bytes_read();
      read.from_cache += decode->cached_bytes();
    }
    return read;
  }

  Entries expected(int64_t row) const {
    const auto found = made.rows.find(row);
    return found == made.rows.end() ? Entries{} : chosen(found->second, columns);
  }

  std::vector<fs::path> kept() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(cache_folder.path())) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
    return files;
  }
  uint64_t kept_bytes() const {
    uint64_t bytes = 0;
    for (const auto& path : kept()) bytes += fs::file_size(path);
    return bytes;
  }

  TemporaryFolder source_folder;
  TemporaryFolder cache_folder;
  PackedRows made;
  std::vector<int64_t> columns;
};

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

TEST_F(CachedSourceTest, AFlippedByteIsFetchedAnew) {
  read(*source(folder()));
  std::mt19937_64 random(1);
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

TEST_F(CachedSourceTest, FilesThatVanishAreFetchedAnew) {
  const auto cached = source(folder());
  read(*cached);
  fs::remove_all(cache_folder.file("cache"));
  for (const auto& file : kept()) io::forget_descriptor(file);
  EXPECT_EQ(kept().size(), 0U);
  read(*cached);
  read(*source(folder()));
  EXPECT_EQ(read(*source(folder())).from_source, 0U);
}

TEST_F(CachedSourceTest, StaysWithinItsLimitAndKeepsWhatItUses) {
  read(*source(folder()));
  const uint64_t whole = kept_bytes();
  fs::remove_all(cache_folder.file("cache"));
  const uint64_t limit = whole / 2;
  for (int epoch = 0; epoch < 3; ++epoch) {
    const auto cached = source(folder(limit));
    const Read first = read(*cached);
    EXPECT_LE(kept_bytes(), limit);
    const Read second = read(*cached);
    EXPECT_LE(kept_bytes(), limit);
    EXPECT_GT(second.from_cache, whole / 4) << "what was kept is not pushed out again";
    EXPECT_GT(first.from_source, 0U);
  }
}

void make_old(const fs::path& path) {
  const timespec past[2] = {{1000, 0}, {1000, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), past, 0), 0);
}

TEST_F(CachedSourceTest, WhatWasUsedLongestAgoGoesFirst) {
  read(*source(folder()));
  const uint64_t whole = kept_bytes();
  const auto old_files = kept();
  for (const auto& path : old_files) make_old(path);
  const TemporaryFolder elsewhere;
  made = make_packed_rows(elsewhere, {}, 23);
  const auto cached = source(folder(whole + whole / 2));
  read(*cached);
  EXPECT_EQ(read(*cached).from_source, 0U);
  EXPECT_LE(kept_bytes(), whole + whole / 2);
  EXPECT_TRUE(std::any_of(old_files.begin(), old_files.end(),
                          [](const auto& path) { return !fs::exists(path); }));
}

TEST_F(CachedSourceTest, WhatIsReadCountsAsUsed) {
  // By units, and by rows, which looks at no file while an epoch lasts.
  for (const bool by_rows : {false, true}) {
    const auto cached = source(folder());
    read(*cached);
    for (const auto& path : kept()) make_old(path);
    const auto before = fs::file_time_type::clock::now() - std::chrono::minutes(1);
    if (by_rows) {
      ASSERT_NE(cached->reader(columns)->row_reader(RowSelection::range(0, 2000)), nullptr);
    } else {
      read(*cached);
    }
    for (const auto& path : kept()) EXPECT_GT(fs::last_write_time(path), before) << by_rows;
  }
}

TEST_F(CachedSourceTest, OnlyWhatIsItsOwnIsRemoved) {
  const auto put = [&](const std::string& name, bool old) {
    const fs::path path = fs::path(cache_folder.file("cache")) / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << std::string(100'000, 'x');
    if (old) make_old(path);
    return path;
  };
  read(*source(folder()));
  const fs::path own = kept().front();
  const fs::path unit = fs::relative(own.parent_path(), cache_folder.file("cache"));
  const auto killed = put((unit / "1-1-1.rows.1-1.tmp").string(), true);
  const auto writing = put((unit / "2-2-2.rows.2-2.tmp").string(), false);
  const std::vector<fs::path> of_others = {put("notes", true), put("photos/7/dog.rows", true),
                                           put(unit.parent_path() / "photos" / "dog.rows", true)};
  make_old(own);
  const TemporaryFolder elsewhere;
  made = make_packed_rows(elsewhere, {}, 23);
  read(*source(folder(200'000)));  // less than is there: all that is not used goes
  EXPECT_FALSE(fs::exists(killed));
  EXPECT_TRUE(fs::exists(writing));
  for (const auto& path : of_others) EXPECT_TRUE(fs::exists(path)) << path;
  EXPECT_FALSE(fs::exists(own));
}

TEST_F(CachedSourceTest, ADiskWithoutRoom) {
  uint64_t capacity = 0;
  uint64_t used_by_others = 0;
  const auto space_of = [&](const std::string& path) {
    EXPECT_EQ(path, cache_folder.file("cache"));
    fs::space_info space{capacity, 0, 0};
    space.free = space.available = capacity - used_by_others - kept_bytes();
    return space;
  };
  const auto on_disk = [&](uint64_t limit) {
    return std::make_shared<CacheFolder>(cache_folder.file("cache"), limit, space_of);
  };
  read(*source(folder()));
  const uint64_t whole = kept_bytes();
  const TemporaryFolder elsewhere;
  made = make_packed_rows(elsewhere, {}, 23);
  // Of a small disk a twentieth stays free, of a large one 4 GiB.
  for (const auto& [size, free] :
       {std::pair(uint64_t{40} << 30, uint64_t{2} << 30), {uint64_t{1} << 40, uint64_t{4} << 30}}) {
    capacity = size;
    fs::remove_all(cache_folder.file("cache"));
    used_by_others = 0;
    // What no run uses makes place.
    const TemporaryFolder older;
    const auto made_now = std::exchange(made, make_packed_rows(older, {}, 21));
    read(*source(folder()));
    for (const auto& path : kept()) make_old(path);
    made = made_now;
    used_by_others = capacity - free - whole - whole / 10;
    auto where = on_disk(CacheFolder::kNoLimit);
    const auto cached = source(where);
    read(*cached);
    EXPECT_EQ(read(*cached).from_source, 0U) << "the older content went";
    EXPECT_TRUE(where->is_on());
    // Then it ends, and says why.
    fs::remove_all(cache_folder.file("cache"));
    used_by_others = capacity - free - whole / 2;
    where = on_disk(CacheFolder::kNoLimit);
    const auto half = source(where);
    read(*half);
    EXPECT_FALSE(where->is_on());
    EXPECT_NE(where->problem().find("cache_bytes"), std::string::npos) << where->problem();
    EXPECT_LE(kept_bytes(), whole / 2);
    const Read second = read(*half);
    EXPECT_GT(second.from_cache, 0U) << "what was kept before is read";
    EXPECT_GT(second.from_source, 0U);
    // With a limit of the user's it is the disk that counts.
    where = on_disk(whole * 2);
    read(*source(where));
    EXPECT_EQ(read(*source(where)).from_source, 0U);
    EXPECT_TRUE(where->is_on());
    fs::remove_all(cache_folder.file("cache"));
    used_by_others = capacity - whole / 2;
    where = on_disk(whole * 2);
    read(*source(where));
    EXPECT_FALSE(where->is_on());
    EXPECT_NE(where->problem().find("free"), std::string::npos);
    EXPECT_LE(kept_bytes(), whole / 2);
  }
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
  EXPECT_FALSE(cached->keeps(all));
  read(*cached, 2, 0);
  EXPECT_EQ(reader->row_reader(all), nullptr);
  EXPECT_FALSE(cached->keeps(all));
  read(*cached);
  EXPECT_TRUE(cached->keeps(all));
  EXPECT_TRUE(source(folder())->keeps(RowSelection::range(700, 900)));
  EXPECT_FALSE(
      source(std::make_shared<CacheFolder>(cache_folder.file("other"), 1 << 30))->keeps(all));
  std::mt19937_64 random(3);
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
  // What two ranks leave who looked before either had written.
  read(*source(folder()), 2, 0);
  const auto other = std::make_shared<CacheFolder>(cache_folder.file("other"), uint64_t{1} << 40);
  read(*source(other), 2, 1);
  const fs::path from = cache_folder.file("other");
  for (const auto& entry : fs::recursive_directory_iterator(from)) {
    if (!entry.is_regular_file()) continue;
    const auto to = fs::path(cache_folder.file("cache")) / fs::relative(entry.path(), from);
    fs::create_directories(to.parent_path());
    fs::copy_file(entry.path(), to);
  }
  const auto cached = source(folder());
  EXPECT_TRUE(cached->keeps(RowSelection::range(0, 2000)));
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
