#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "format/cache/cache_folder.h"
#include "format/cache/testing/cached_source_fixture.h"

// How much of a disk a cache may use, and which files it evicts.

namespace penstock::format::pack {
namespace {

namespace fs = std::filesystem;
using testing::make_packed_rows;
using testing::TemporaryFolder;

class CacheRoomTest : public testing::CachedSourceTest {};

void make_old(const fs::path& path) {
  const timespec past[2] = {{1000, 0}, {1000, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), past, 0), 0);
}

TEST_F(CacheRoomTest, StaysWithinItsLimitAndKeepsWhatItUses) {
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

TEST_F(CacheRoomTest, WhatWasUsedLongestAgoGoesFirst) {
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

TEST_F(CacheRoomTest, WhatIsReadCountsAsUsed) {
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

TEST_F(CacheRoomTest, OnlyWhatIsItsOwnIsRemoved) {
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

TEST_F(CacheRoomTest, AnyNumberOfProcessesStayWithinTheLimit) {
  constexpr uint64_t kProcesses = 8;
  testing::PackedRowsOptions small_units;
  small_units.rows_per_file = 50;
  std::vector<TemporaryFolder> places(kProcesses);
  std::vector<testing::PackedRows> contents;
  for (uint64_t i = 0; i < kProcesses; ++i) {
    contents.push_back(make_packed_rows(places[i], small_units, static_cast<uint32_t>(30 + i)));
  }
  read(*source(folder()));
  const uint64_t limit = kept_bytes();  // of one content
  for (const auto& path : kept()) make_old(path);
  for (int round = 0; round < 3; ++round) {
    std::vector<pid_t> children;
    for (uint64_t i = 0; i < kProcesses; ++i) {
      const pid_t child = ::fork();
      if (child == 0) {
        made = contents[i];
        const auto cached = source(folder(limit));
        read(*cached);
        read(*cached);
        ::_exit(::testing::Test::HasFailure() ? 1 : 0);
      }
      children.push_back(child);
      if (round == 2 && i % 2 == 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10 * i));
        ::kill(child, SIGKILL);
      }
    }
    for (const pid_t child : children) {
      int status = 1;
      ::waitpid(child, &status, 0);
      EXPECT_TRUE(status == 0 || round == 2);
    }
    uint64_t bytes = 0;
    for (const auto& path : kept()) {
      if (path.extension() == ".rows") bytes += fs::file_size(path);
    }
    EXPECT_LE(bytes, limit);
    EXPECT_GT(bytes, limit / 4 * 3);
    EXPECT_GE(read_cache_room(cache_folder.file("cache"))->total_bytes, bytes);
  }
}

TEST_F(CacheRoomTest, WhatIsWrittenOfTheRoomMayBeWrong) {
  read(*source(folder()));
  const uint64_t limit = kept_bytes() * 3 / 2;
  fs::remove_all(cache_folder.file("cache"));
  const TemporaryFolder elsewhere;
  const auto other = make_packed_rows(elsewhere, {}, 23);
  const std::string cache = cache_folder.file("cache");
  const fs::path room_file = fs::path(cache) / kCacheRoomName;
  const auto write = [&](uint64_t total) { CacheRoomLock(cache).write({total, 0, 0}); };
  const auto damage = [&](size_t bytes) {
    std::ofstream(room_file, std::ios::trunc) << std::string(bytes, 'x');
  };
  const std::vector<std::function<void()>> harms = {
      [&] { fs::remove(room_file); }, [&] { damage(0); }, [&] { damage(40); },
      [&] { damage(1000); },          [&] { write(0); },  [&] { write(~uint64_t{0}); },
  };
  for (size_t i = 0; i < harms.size(); ++i) {
    read(*source(folder()));
    for (const auto& path : kept()) make_old(path);
    harms[i]();
    const auto mine = std::exchange(made, other);
    const auto cached = source(folder(limit));
    read(*cached);
    EXPECT_EQ(read(*cached).from_source, 0U) << i;
    EXPECT_LE(kept_bytes(), limit) << i;
    EXPECT_EQ(read_cache_room(cache)->total_bytes, kept_bytes()) << i;
    made = mine;
    fs::remove_all(cache);
  }
}

TEST_F(CacheRoomTest, ALockThatOthersKeepStopsTheKeepingAlone) {
  read(*source(folder()));
  fs::remove_all(cache_folder.file("cache"));
  const std::string cache = cache_folder.file("cache");
  const CacheRoomLock kept_by_others(cache);
  const auto begin = std::chrono::steady_clock::now();
  const auto cached = source(folder());
  for (int epoch = 0; epoch < 2; ++epoch) EXPECT_EQ(read(*cached).from_cache, 0U);
  // One wait of 5 s. Without that rule each unit of each epoch waits.
  const auto units = static_cast<int64_t>(cached->units().size());
  ASSERT_GE(units, 5);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5) * units);
  EXPECT_EQ(kept_bytes(), 0U);
}

TEST_F(CacheRoomTest, WhatALinkLeadsToIsNotWritten) {
  const std::string cache = cache_folder.file("cache");
  const fs::path mine = cache_folder.file("mine");
  std::ofstream(mine) << "mine";
  fs::create_directories(cache);
  fs::create_symlink(mine, fs::path(cache) / kCacheRoomName);
  const auto own = folder();
  const auto cached = source(own);
  for (int epoch = 0; epoch < 2; ++epoch) EXPECT_EQ(read(*cached).from_cache, 0U);
  EXPECT_FALSE(own->is_on());
  EXPECT_EQ(fs::file_size(mine), 4U);
}

TEST_F(CacheRoomTest, AFileWithoutANameLeavesItsFolder) {
  const std::string cache = cache_folder.file("cache");
  const auto own = folder();
  ASSERT_TRUE(own->make_room(10));
  const fs::path unit = fs::path(cache) / std::string(64, 'a') / "0";
  fs::create_directories(unit);
  std::ofstream(unit / "x.tmp") << "0123456789";
  fs::remove(fs::path(cache) / kCacheRoomName);
  fs::create_directory(fs::path(cache) / kCacheRoomName);
  EXPECT_THROW(own->publish(unit / "x.tmp", unit / "x.rows", 10), IoError);
  EXPECT_TRUE(fs::is_empty(unit)) << "a folder that is gone would be a reason to try again";
}

/// A user to whom permissions apply, also where tests run as root.
class PlainUser {
 public:
  PlainUser() : before_(::geteuid()) {
    if (before_ == 0) {
      EXPECT_EQ(::seteuid(kNobody), 0);
    }
  }
  ~PlainUser() {
    if (before_ == 0) {
      EXPECT_EQ(::seteuid(before_), 0);
    }
  }
  PlainUser(const PlainUser&) = delete;
  PlainUser& operator=(const PlainUser&) = delete;

 private:
  static constexpr uid_t kNobody = 65534;
  uid_t before_;
};

TEST_F(CacheRoomTest, AFolderThatMayNotBeListedEndsTheKeeping) {
  const fs::path cache = cache_folder.file("cache");
  read(*source(folder()));
  const uint64_t limit = kept_bytes() * 2;
  const fs::path key = fs::path(kept().front()).parent_path().parent_path();
  const fs::path of_others = cache / std::string(64, 'a');
  ASSERT_NE(key, of_others);
  for (const fs::path& forbidden : {of_others, of_others / "7"}) {
    fs::remove_all(key);
    fs::create_directories(of_others / "7");
    std::ofstream(of_others / "7" / "x.rows") << std::string(limit, 'x');
    for (const fs::path& open : {fs::path(cache_folder.path()), cache}) {
      fs::permissions(open, fs::perms::all);
    }
    fs::remove(cache / kCacheRoomName);
    fs::permissions(forbidden, fs::perms::none);
    const auto own = folder(limit);
    {
      const PlainUser user;
      const auto cached = source(own);
      for (int epoch = 0; epoch < 2; ++epoch) EXPECT_EQ(read(*cached).from_cache, 0U);
    }
    fs::permissions(forbidden, fs::perms::all);
    EXPECT_FALSE(own->is_on());
    EXPECT_NE(own->problem().find("Permission denied: " + forbidden.string()), std::string::npos)
        << own->problem();
    EXPECT_FALSE(fs::exists(key)) << "the limit was reached already";
  }
}

TEST_F(CacheRoomTest, WhatIsNoCacheMayNotBeListedEither) {
  const fs::path cache = cache_folder.file("cache");
  for (const char* name : {"lost+found", "photos/7"}) fs::create_directories(cache / name);
  std::ofstream(cache / std::string(64, 'b')) << "a file";
  fs::create_directories(cache / std::string(64, 'a') / "7" / "x.rows");
  for (const fs::path& open : {fs::path(cache_folder.path()), cache}) {
    fs::permissions(open, fs::perms::all);
  }
  for (const char* name : {"lost+found", "photos"}) {
    fs::permissions(cache / name, fs::perms::none);
  }
  {
    const PlainUser user;
    const auto cached = source(folder());
    read(*cached);
    EXPECT_EQ(read(*cached).from_source, 0U);
  }
  for (const char* name : {"lost+found", "photos"}) fs::permissions(cache / name, fs::perms::all);
}

TEST_F(CacheRoomTest, ADiskWithoutRoom) {
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
  // On a small disk a twentieth stays free, on a large one 4 GiB.
  for (const auto& [size, free] :
       {std::pair(uint64_t{40} << 30, uint64_t{2} << 30), {uint64_t{1} << 40, uint64_t{4} << 30}}) {
    capacity = size;
    fs::remove_all(cache_folder.file("cache"));
    used_by_others = 0;
    // Files that no run uses are evicted.
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

}  // namespace
}  // namespace penstock::format::pack
