#include "pipeline/stream/units/read_ahead.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace penstock::pipeline {
namespace {

TEST(ReadAhead, EveryBatchIsAnnouncedOnceAndInTime) {
  for (const uint64_t batch_rows : {1U, 128U, 400U, 5000U}) {
    for (const uint64_t first_batch : {0U, 7U}) {
      ReadAhead ahead(first_batch, 40, batch_rows);
      uint64_t announced = first_batch;
      for (uint64_t batch = first_batch; batch < 40; ++batch) {
        const auto batches = ahead.before_read_of(batch);
        EXPECT_EQ(batches.first, announced);
        announced = batches.last;
        EXPECT_GT(announced, batch);
        EXPECT_LE(announced, 40U);
        EXPECT_LE((announced - batch - 1) * batch_rows, std::max(ReadAhead::kRows, batch_rows));
        ahead.after_read(true);
      }
      EXPECT_EQ(announced, 40U);
    }
  }
}

TEST(ReadAhead, StopsWhenNothingComesFromTheDiskAndBeginsAgain) {
  ReadAhead ahead(0, 1000, 128);
  uint64_t batch = 0;
  const auto step = [&](bool from_disk) {
    const auto batches = ahead.before_read_of(batch++);
    ahead.after_read(from_disk);
    return batches.last - batches.first;
  };
  for (int i = 0; i < 100; ++i) step(false);
  EXPECT_FALSE(ahead.is_on());
  EXPECT_EQ(step(false), 0U);
  EXPECT_EQ(step(true), 0U);  // a surprise
  EXPECT_TRUE(ahead.is_on());
  EXPECT_EQ(step(true), 9U);  // itself and what comes
  EXPECT_EQ(step(true), 1U);
}

TEST(DiskReads, OfAFileInMemoryAreNone) {
  std::string path = ::testing::TempDir() + "penstock_disk_reads_XXXXXX";
  const int file = ::mkstemp(path.data());
  ASSERT_GE(file, 0);
  std::vector<char> bytes(1 << 16, 'a');
  ASSERT_EQ(::write(file, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  const DiskReads reads;
  ASSERT_EQ(::pread(file, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  EXPECT_FALSE(reads.any());
  ::close(file);
  ::unlink(path.c_str());
}

}  // namespace
}  // namespace penstock::pipeline
