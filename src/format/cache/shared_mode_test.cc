#include "format/cache/shared_mode.h"

#include <gtest/gtest.h>
#include <penstock/error.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "format/pack/testing/packed_rows.h"

namespace penstock::format::pack {
namespace {

mode_t mode_of(const std::string& path) {
  struct stat found {};
  EXPECT_EQ(::lstat(path.c_str(), &found), 0) << path;
  return found.st_mode & 07777;
}

class SharedMode : public ::testing::Test {
 protected:
  std::string at(const std::string& name) const { return folder_.file(name); }

  std::string file(const std::string& name) const {
    std::ofstream(at(name)) << "x";
    ::chmod(at(name).c_str(), 0600);
    return at(name);
  }

  std::string root(mode_t mode) const {
    ::mkdir(at("root").c_str(), 0700);
    ::chmod(at("root").c_str(), mode);
    return at("root");
  }

  testing::TemporaryFolder folder_;
};

TEST_F(SharedMode, FilesAndFoldersHaveThatOfTheirRoot) {
  const std::string place = root(02770);
  make_shared_folder(place, place + "/a/b");
  EXPECT_EQ(mode_of(place + "/a"), 02770U);
  EXPECT_EQ(mode_of(place + "/a/b"), 02770U);
  const std::string row = file("root/a/b/rows");
  share_file(place, row);
  EXPECT_EQ(mode_of(row), 0660U);
}

/// A thread that makes a parent again replaces the empty one of another thread, which is then gone.
TEST_F(SharedMode, ThreadsMakeTheSameFolders) {
  const std::string place = root(02770);
  constexpr int kThreads = 8, kRounds = 400;
  std::barrier<> together(kThreads);
  std::atomic<int> failures = 0;
  std::vector<std::jthread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        const std::string folder = place + "/" + std::to_string(round) + "/0";
        together.arrive_and_wait();
        try {
          make_shared_folder(place, folder);
        } catch (const IoError&) {
          ++failures;
        }
        if (!std::filesystem::is_directory(folder)) ++failures;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(failures, 0);
}

TEST_F(SharedMode, WhatLeadsElsewhereIsLeft) {
  const std::string place = root(0777), precious = file("precious");
  std::filesystem::create_symlink(precious, place + "/link");
  share_file(place, place + "/link");
  EXPECT_EQ(mode_of(precious), 0600U);
  std::filesystem::create_hard_link(precious, place + "/same");
  share_file(place, place + "/same");
  EXPECT_EQ(mode_of(precious), 0600U);
}

TEST_F(SharedMode, InAPlaceLikeTmpTheUmaskHolds) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs a folder of another user";
  const std::string place = root(01777);
  ASSERT_EQ(::chown(place.c_str(), 1, static_cast<gid_t>(-1)), 0);
  const mode_t before = ::umask(077);
  make_shared_folder(place, place + "/a/b");
  ::umask(before);
  EXPECT_EQ(mode_of(place + "/a"), 0700U);
  EXPECT_EQ(mode_of(place + "/a/b"), 0700U);
  const std::string row = file("root/a/b/rows");
  share_file(place, row);
  EXPECT_EQ(mode_of(row), 0600U);
}

}  // namespace
}  // namespace penstock::format::pack
