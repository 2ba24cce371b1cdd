#include "format/cells/cell_kernels.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "base/testing/test_seed.h"
#include "base/vector_path.h"

namespace penstock::format {
namespace {

std::vector<VectorPath> paths() {
  std::vector<VectorPath> all{VectorPath::kScalar};
  if (best_vector_path() != VectorPath::kScalar) all.push_back(best_vector_path());
  return all;
}

TEST(XCellKernels, RowChangesAreThoseOfALoop) {
  const TestSeed seed(1);
  std::mt19937_64 random(seed);
  for (size_t count = 0; count < 200; ++count) {
    for (const uint64_t longest : {1U, 2U, 5U, 70U}) {
      std::vector<int64_t> rows;
      int64_t row = static_cast<int64_t>(random() >> 1);
      const int64_t previous = row;
      while (rows.size() < count) {
        rows.insert(rows.end(), 1 + random() % longest, row);
        row ^= int64_t{1} << (random() % 63);
      }
      rows.resize(count);
      std::vector<uint32_t> expected;
      for (size_t i = 0; i < count; ++i) {
        if (rows[i] != (i == 0 ? previous : rows[i - 1])) {
          expected.push_back(1000 + static_cast<uint32_t>(i));
        }
      }
      for (const VectorPath path : paths()) {
        std::vector<uint32_t> found(count);
        found.resize(find_row_changes(rows.data(), count, previous, 1000, found.data(), path));
        EXPECT_EQ(found, expected) << count;
      }
    }
  }
}

template <typename Index>
void check_ascending() {
  const TestSeed seed(2);
  std::mt19937_64 random(seed);
  for (size_t count = 0; count < 200; ++count) {
    for (const uint64_t mask : {0x3ULL, 0xFFFFFFFFULL}) {
      std::vector<Index> indices(count);
      for (Index& index : indices) index = static_cast<Index>(random() & mask);
      size_t expected = 0;
      for (size_t i = 1; i < count; ++i) expected += indices[i] <= indices[i - 1];
      for (const VectorPath path : paths()) {
        EXPECT_EQ(count_not_ascending(indices.data(), count, path), expected);
      }
    }
  }
}

TEST(XCellKernels, NotAscending16) { check_ascending<uint16_t>(); }
TEST(XCellKernels, NotAscending32) { check_ascending<uint32_t>(); }

}  // namespace
}  // namespace penstock::format
