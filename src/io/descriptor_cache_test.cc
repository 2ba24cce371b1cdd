#include "io/descriptor_cache.h"

#include <gtest/gtest.h>
#include <penstock/error.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

namespace penstock::io {
namespace {

namespace fs = std::filesystem;

size_t open_descriptors() {
  const fs::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(fs::begin(all), fs::end(all)));
}

class DescriptorCache : public ::testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) {
    const fs::path path = folder_ / name;
    std::ofstream(path) << text;
    return path;
  }
  void TearDown() override { fs::remove_all(folder_); }

 private:
  static fs::path made() {
    std::string name = (fs::temp_directory_path() / "penstock-descriptors-XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    return name;
  }
  fs::path folder_ = made();
};

TEST_F(DescriptorCache, AFileThatNobodyHasIsClosed) {
  const size_t before = open_descriptors();
  std::vector<std::string> paths;
  for (int i = 0; i < 50; ++i) {
    paths.push_back(file(std::to_string(i), "text"));
    open_descriptor(paths.back());
  }
  EXPECT_EQ(open_descriptors(), before + 50);
  const auto held = open_descriptor(paths[0]);
  for (const std::string& path : paths) forget_descriptor(path);
  EXPECT_EQ(open_descriptors(), before + 1);
  std::array<std::byte, 4> out{};
  held->read(0, out);
  EXPECT_EQ(out[0], std::byte{'t'});
}

TEST_F(DescriptorCache, WhatCannotBeOpenedLeavesNothingOpen) {
  const size_t before = open_descriptors();
  for (int i = 0; i < 20; ++i) {
    EXPECT_THROW(open_descriptor("/proc/self/no such file"), NotFound);
    EXPECT_THROW(open_descriptor("/dev/null"), Error);
    EXPECT_THROW(open_descriptor(fs::temp_directory_path()), Error);
  }
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace penstock::io
