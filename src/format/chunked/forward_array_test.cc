#include "format/chunked/forward_array.h"

#include <gtest/gtest.h>
#include <penstock/error.h>

#include <cstring>
#include <random>

#include "base/testing/test_seed.h"
#include "format/chunked/read_array.h"
#include "format/chunked/testing/memory_array.h"

namespace penstock::format::chunked {
namespace {

using Random = std::mt19937_64;

template <typename T>
std::vector<T> random_values(Random& random, size_t count, int fill = 0) {
  std::vector<T> values(count, static_cast<T>(fill));
  for (size_t i = 0; i < count; ++i) {
    if (i / 3000 % 4 != 0) values[i] = static_cast<T>(random() % (i / 3000 % 2 == 0 ? 5 : 60'000));
  }
  return values;
}

template <typename T>
void expect_values(const Array& array, const std::vector<T>& values, uint64_t begin, uint64_t end) {
  const Buffer read = read_values(array, begin, end, 1);
  ASSERT_EQ(read.size(), (end - begin) * sizeof(T));
  if (begin == end) return;
  ASSERT_EQ(std::memcmp(read.data(), values.data() + begin, read.size()), 0) << begin << " " << end;
}

template <typename T>
void check(DataType type, uint64_t own_seed) {
  const TestSeed seed(own_seed);
  Random random(seed);
  for (int round = 0; round < 5; ++round) {
    MemoryLayout layout;
    layout.fill = static_cast<int>(random() % 3);
    const auto values = random_values<T>(random, random() % 1'500'000, layout.fill);
    const uint64_t longest[] = {2'000'000, 400'000, 2000};
    layout.chunk_length = 1 + random() % longest[round % 3];
    layout.compressed = random() % 4 != 0;
    layout.shuffled = random() % 2 == 0;
    layout.big_endian = random() % 4 == 0;
    layout.absent_zeros = random() % 2 == 0;
    layout.deflated = true;
    const auto arrays = forward_arrays({std::make_shared<MemoryArray>(
        std::make_shared<io::MemoryStore>(), "X/data", type, values, layout)});
    ASSERT_EQ(arrays.size(), 1U);
    const ArrayPtr& array = arrays[0];
    EXPECT_EQ(array->info().shape[0], values.size());
    EXPECT_LE(array->info().decoded_bytes(), uint64_t{1} << 20);
    uint64_t at = 0;
    for (int read = 0; read < 30; ++read) {
      if (random() % 10 == 0) at = random() % (values.size() + 1);  // also backwards
      const uint64_t left = values.size() - at;
      const uint64_t end = at + (left == 0 ? 0 : random() % (left / 4 + 1));
      expect_values(*array, values, at, end);
      at = end + (random() % 2 == 0 ? 0 : random() % ((values.size() - end) / 8 + 1));
    }
    expect_values(*array, values, 0, values.size());
  }
}

TEST(ForwardArray, HasTheCells) {
  check<float>(DataType::kFloat32, 1);
  check<int32_t>(DataType::kInt32, 2);
  check<double>(DataType::kFloat64, 3);
  check<uint8_t>(DataType::kUInt8, 4);
  check<uint16_t>(DataType::kUInt16, 5);
}

TEST(ForwardArray, OtherFiltersAreNone) {
  MemoryLayout layout{100, true, false, false, false};
  const auto objects = std::make_shared<io::MemoryStore>();
  const std::vector<int32_t> values(500);
  const auto other = std::make_shared<MemoryArray>(objects, "X", DataType::kInt32, values, layout);
  layout.deflated = true;
  const auto fits = std::make_shared<MemoryArray>(objects, "Y", DataType::kInt32, values, layout);
  EXPECT_EQ(forward_arrays({fits}).size(), 1U);
  EXPECT_TRUE(forward_arrays({other}).empty());
  EXPECT_TRUE(forward_arrays({fits, other}).empty());
}

// A read that failed leaves nothing behind: the next one begins again.
TEST(ForwardArray, DamageIsNamedEveryTime) {
  const TestSeed seed(6);
  Random random(seed);
  const auto values = random_values<int32_t>(random, 900'000);
  const auto objects = std::make_shared<io::MemoryStore>();
  MemoryLayout layout{500'000, true, true, false, false, true};
  const auto stored =
      std::make_shared<MemoryArray>(objects, "X/data", DataType::kInt32, values, layout);
  const ArrayPtr array = forward_arrays({stored})[0];
  Buffer chunk = objects->read_all(stored->object(1));
  for (size_t i = chunk.size() / 2; i < chunk.size() / 2 + 50; ++i) chunk.data()[i] = std::byte{7};
  objects->put(stored->object(1), {chunk.data(), chunk.data() + chunk.size()});
  for (int round = 0; round < 3; ++round) {
    expect_values(*array, values, 0, 400'000);
    try {
      read_values(*array, 0, values.size(), 1);
      ADD_FAILURE() << "no error";
    } catch (const CorruptData& error) {
      EXPECT_NE(std::string(error.what()).find("in chunk 1 of X/data"), std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace penstock::format::chunked
