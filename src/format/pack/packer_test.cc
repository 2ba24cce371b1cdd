#include <gtest/gtest.h>
#include <penstock/error.h>
#include <penstock/experiment.h>
#include <penstock/pack.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/testing/test_seed.h"
#include "format/testing/unpacked.h"

// Packs in parts, within one process. tests/python/packs has other processes, kills and file
// systems without locks.

namespace penstock {
namespace {

namespace fs = std::filesystem;

/// Each file of a folder, by its path in the folder.
std::map<std::string, std::string> contents(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    files[fs::relative(entry.path(), folder).string()] = {std::istreambuf_iterator<char>(file), {}};
  }
  return files;
}

void run(Packer& packer) {
  while (packer.advance(1)) {
  }
}

TEST(PackerParts, RandomPartsGiveTheSameBytes) {
  const TestSeed seed(1);
  std::mt19937_64 random(seed);
  const format::testing::Unpacked unpacked("saved_states");
  const Experiment source = Experiment::open(unpacked.path());
  const fs::path folder = fs::path(unpacked.path()).parent_path();
  for (int round = 0; round < 6; ++round) {
    PackOptions options;
    options.rows_per_file = std::vector<uint64_t>{1, 700, 3000, 100'000}[random() % 4];
    options.threads = 1 + static_cast<unsigned>(random() % 3);
    if (random() % 2 == 0) options.rows = RowSelection::range(100, 7000);
    const std::string number = std::to_string(round);
    const fs::path whole = folder / ("whole" + number), parts = folder / ("parts" + number);
    Packer at_once(source, whole.string(), options);
    run(at_once);

    // The last packer begins first, or begins when parts are done; some parts may be missing.
    const bool joins = random() % 2 == 0;
    const uint64_t count = 1 + random() % (at_once.files().size() + 2);
    std::vector<uint64_t> numbers;
    for (uint64_t part = 0; part < count; ++part) {
      if (random() % 5 != 0) numbers.push_back(part);
    }
    std::shuffle(numbers.begin(), numbers.end(), random);
    std::optional<Packer> driver;
    if (joins) {
      driver.emplace(source, parts.string(), options);
      driver->begin();
    }
    uint64_t rows = 0;
    std::vector<std::string> files;
    for (uint64_t part = 0; part < count; ++part) {
      PackOptions of_part = options;
      of_part.part = PackPart{part, count, false};
      const auto its = Packer(source, (folder / ("never" + number)).string(), of_part).files();
      files.insert(files.end(), its.begin(), its.end());
    }
    EXPECT_EQ(files, at_once.files());
    for (const std::string& file : files) EXPECT_TRUE(fs::exists(whole / file)) << file;
    for (const uint64_t part : numbers) {
      PackOptions of_part = options;
      of_part.part = PackPart{part, count, joins};
      Packer packer(source, parts.string(), of_part);
      run(packer);
      EXPECT_EQ(packer.progress().rows_done, packer.progress().rows_total);
      rows += packer.progress().rows_done;
    }
    EXPECT_FALSE(fs::exists(parts));
    if (!joins) driver.emplace(source, parts.string(), options);
    run(*driver);
    EXPECT_EQ(driver->progress().rows_kept, rows);
    EXPECT_EQ(contents(parts), contents(whole)) << "round " << round;
    EXPECT_FALSE(fs::exists(parts.string() + ".partial"));
  }
}

TEST(PackerParts, APartAfterTheEndChangesNothing) {
  const format::testing::Unpacked unpacked("saved_states");
  const Experiment source = Experiment::open(unpacked.path());
  const std::string pack = unpacked.path() + ".pack";
  PackOptions options;
  options.rows_per_file = 1000;
  options.threads = 1;
  Packer driver(source, pack, options);
  driver.begin();
  options.part = PackPart{0, 2, true};
  Packer late(source, pack, options);
  ASSERT_TRUE(late.advance(0));
  run(driver);
  const auto whole = contents(pack);
  EXPECT_TRUE(std::none_of(whole.begin(), whole.end(),
                           [](const auto& file) { return file.first.ends_with(".tmp"); }));
  EXPECT_THROW(run(late), IoError);
  for (const bool joins : {false, true}) {
    options.part = PackPart{1, 2, joins};
    Packer after(source, pack, options);
    EXPECT_FALSE(after.advance(0));
  }
  EXPECT_FALSE(fs::exists(pack + ".partial"));
  EXPECT_EQ(contents(pack), whole);

  fs::remove_all(pack);
  EXPECT_THROW(Packer(source, pack, options), IoError);
  options.part = PackPart{2, 2, false};
  EXPECT_THROW(Packer(source, pack, options), InvalidArgument);
  EXPECT_FALSE(fs::exists(pack + ".partial"));
}

}  // namespace
}  // namespace penstock
