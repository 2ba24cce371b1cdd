#include "format/chunked/read_array.h"

#include <gtest/gtest.h>
#include <penstock/error.h>

#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>

#include "format/chunked/chunk_grid.h"
#include "format/chunked/testing/whole_array.h"
#include "io/memory_store.h"

namespace penstock::format::chunked {
namespace {

/// An array over objects "0", "1", … of a store in memory; the others are absent.
class TestArray final : public Array {
 public:
  TestArray() { info_.path = "the/array"; }

  const ArrayInfo& info() const override { return info_; }
  const nlohmann::json& attributes() const override { return attributes_; }
  const io::Store& store() const override { return store_; }
  std::vector<ChunkPlace> places(std::span<const uint64_t> chunks) const override {
    std::vector<ChunkPlace> result(chunks.size());
    for (size_t i = 0; i < chunks.size(); ++i) {
      const std::string path = std::to_string(chunks[i]);
      if (store_.exists(path)) result[i] = {path, 0, store_.size_bytes(path), skipped_};
    }
    return result;
  }
  double stored_bytes_per_chunk() const override { return 0; }
  void expect_unchanged() const override {
    if (rewritten_) throw CorruptData("the array was written since it was opened");
  }
  std::string version() const override { return {}; }

  template <typename T>
  void put(uint64_t chunk, const std::vector<T>& values) {
    store_.put(std::to_string(chunk), std::as_bytes(std::span(values)));
  }

  ArrayInfo info_;
  uint32_t skipped_ = 0;
  bool rewritten_ = false;
  io::MemoryStore store_;

 private:
  nlohmann::json attributes_;
};

void set_ints(TestArray& array, uint64_t length, uint64_t chunk) {
  array.info_.shape = {length};
  array.info_.chunk_shape = {chunk};
  array.info_.type = DataType::kInt32;
  array.info_.fill_value.assign(4, std::byte{0});
}

std::vector<int32_t> ints(const TestArray& array, uint64_t begin, uint64_t end) {
  const Buffer values = read_values(array, begin, end, 2);
  const auto view = values.as<int32_t>();
  return {view.begin(), view.end()};
}

std::string message(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

TEST(ReadValues, JoinsChunksAndFillsAbsentOnes) {
  TestArray array;
  set_ints(array, 10, 4);
  array.info_.fill_value[0] = std::byte{7};
  array.put<int32_t>(0, {0, 1, 2, 3});
  array.put<int32_t>(2, {8, 9, -1, -1});
  EXPECT_EQ(ints(array, 0, 10), (std::vector<int32_t>{0, 1, 2, 3, 7, 7, 7, 7, 8, 9}));
  EXPECT_EQ(ints(array, 3, 9), (std::vector<int32_t>{3, 7, 7, 7, 7, 8}));
  EXPECT_EQ(ints(array, 5, 5), std::vector<int32_t>{});
  EXPECT_EQ(ints(array, 10, 10), std::vector<int32_t>{});
}

// From 1 MiB on, plain cells are read where they belong.
TEST(ReadValues, ARewrittenArrayIsNotRead) {
  TestArray array;
  set_ints(array, 2, 2);
  array.put<int32_t>(0, {1, 2});
  EXPECT_EQ(ints(array, 0, 2), (std::vector<int32_t>{1, 2}));
  array.rewritten_ = true;
  EXPECT_THROW(ints(array, 0, 2), CorruptData);
  array.info_.strings = StringForm::kVlenUtf8;
  array.info_.cell_bytes = 0;
  EXPECT_THROW(read_strings(array, 0, 2, 1), CorruptData);
}

TEST(ReadValues, LongPlainChunks) {
  TestArray array;
  constexpr int32_t kLength = 1'000'000;
  set_ints(array, 2 * kLength, kLength);
  std::vector<int32_t> values(kLength);
  std::iota(values.begin(), values.end(), 5);
  array.put(0, values);
  array.put(1, values);
  const auto part = ints(array, 3, 2 * kLength - 3);
  ASSERT_EQ(part.size(), 2U * kLength - 6);
  for (size_t i = 0; i < part.size(); ++i) {
    ASSERT_EQ(part[i], static_cast<int32_t>((i + 3) % kLength) + 5);
  }
  array.info_.big_endian = true;
  EXPECT_EQ(ints(array, 0, kLength)[1], static_cast<int32_t>(__builtin_bswap32(6)));
  array.store_.truncate("1", 4 * kLength - 1);
  EXPECT_THROW(ints(array, 0, 2 * kLength), CorruptData);
}

TEST(ReadValues, FiltersThatWereSkippedAreNotUndone) {
  TestArray array;
  set_ints(array, 4, 4);
  array.info_.pipeline = codec::ChunkPipeline(
      {{codec::ChunkFilterType::kShuffle, 4}, {codec::ChunkFilterType::kZlib, 0}});
  array.put<int32_t>(0, {5, 6, 7, 8});
  array.skipped_ = 3;
  EXPECT_EQ(ints(array, 1, 4), (std::vector<int32_t>{6, 7, 8}));
  array.skipped_ = 2;
  EXPECT_NE(ints(array, 0, 4), (std::vector<int32_t>{5, 6, 7, 8}));
  array.skipped_ = 0;
  EXPECT_THROW(ints(array, 0, 4), CorruptData);
}

TEST(ReadValues, RangesOutsideTheArrayAreRefused) {
  TestArray array;
  set_ints(array, 10, 4);
  for (const auto& [begin, end] : std::vector<std::pair<uint64_t, uint64_t>>{
           {0, 11}, {5, 4}, {11, 11}, {UINT64_MAX, UINT64_MAX}}) {
    EXPECT_THROW(read_values(array, begin, end, 1), InvalidArgument);
  }
  array.info_.shape = {2, 5};
  array.info_.chunk_shape = {2, 5};
  EXPECT_THROW(read_values(array, 0, 1, 1), InvalidArgument);
  EXPECT_THROW(read_strings(array, 0, 1, 1), InvalidArgument);
}

TEST(ReadValues, NothingIsAllocatedForCellsThatNothingBacks) {
  TestArray array;
  set_ints(array, 1'000'000'000'000'000, 1'000'000'000'000);
  const std::string absent = message([&] { ints(array, 0, array.info_.shape[0]); });
  EXPECT_NE(absent.find("are not stored"), std::string::npos) << absent;
  EXPECT_NE(absent.find("the/array"), std::string::npos) << absent;
  EXPECT_EQ(ints(array, 5'000'000'000'000, 5'000'000'000'001), std::vector<int32_t>{0});
  // Strings have eight bytes of offset each.
  array.info_.strings = StringForm::kVlenUtf8;
  array.info_.cell_bytes = 0;
  EXPECT_THROW(read_strings(array, 0, array.info_.shape[0], 1), ResourceExhausted);
  set_ints(array, uint64_t{1} << 32, 1);
  array.info_.cell_bytes = 4;
  EXPECT_THROW(read_values(array, 0, uint64_t{1} << 32, 1), ResourceExhausted);
}

TEST(ReadValues, AChunkMustBeAbleToHoldItsCells) {
  TestArray array;
  set_ints(array, 1'000'000'000'000, 1'000'000'000'000);
  array.put<int32_t>(0, {1, 2});
  EXPECT_THROW(ints(array, 0, 2), CorruptData);
  for (const auto filter : {codec::ChunkFilterType::kZlib, codec::ChunkFilterType::kZstd,
                            codec::ChunkFilterType::kBlosc, codec::ChunkFilterType::kLz4}) {
    array.info_.pipeline = codec::ChunkPipeline({{filter, 0}});
    EXPECT_THROW(ints(array, 0, 2), CorruptData);
  }
}

TEST(ReadStrings, FixedStringsBecomeUtf8) {
  TestArray array;
  set_ints(array, 3, 4);
  array.info_.cell_bytes = 8;
  array.info_.type = DataType::kStringUtf8;
  array.info_.strings = StringForm::kFixedUtf32;
  array.info_.fill_value.assign(8, std::byte{0});
  array.put<uint32_t>(0, {'a', 0, 0x7D30, 0x1F9EC, 0, 0, 0, 0});
  EXPECT_EQ(strings_of(read_strings(array, 0, 3, 1)),
            (std::vector<std::string>{"a", "細🧬", ""}));
  for (const uint32_t bad : {0xD800U, 0x110000U, 0xFFFFFFFFU}) {
    array.put<uint32_t>(0, {'a', 0, bad, 0, 0, 0, 0, 0});
    EXPECT_THROW(read_strings(array, 0, 3, 1), CorruptData);
  }
}

/// A zstd frame of one string of `length` times 'a', as a chunk of vlen-utf8, in a few bytes.
/// Source of the form: RFC 8878, blocks of type RLE.
std::vector<uint8_t> long_string(uint32_t length) {
  std::vector<uint8_t> frame = {0x28, 0xB5, 0x2F, 0xFD, 0x00, 0x58};
  const auto block = [&](uint32_t size, uint32_t type, bool last) {
    const uint32_t header = size << 3 | type << 1 | static_cast<uint32_t>(last);
    for (int shift : {0, 8, 16}) frame.push_back(static_cast<uint8_t>(header >> shift));
  };
  block(8, 0, false);
  for (const uint32_t number : {1U, length}) {
    for (int shift : {0, 8, 16, 24}) frame.push_back(static_cast<uint8_t>(number >> shift));
  }
  constexpr uint32_t kBlock = 128 << 10;
  for (uint32_t done = 0; done < length; done += kBlock) {
    block(std::min(kBlock, length - done), 1, length - done <= kBlock);
    frame.push_back('a');
  }
  return frame;
}

TEST(ReadStrings, RepeatedStringsTakeNoMoreThanIsAllowed) {
  TestArray array;
  array.info_.shape = {2};
  array.info_.chunk_shape = {1};
  array.info_.type = DataType::kStringUtf8;
  array.info_.strings = StringForm::kVlenUtf8;
  array.info_.cell_bytes = 0;
  array.info_.pipeline = codec::ChunkPipeline({{codec::ChunkFilterType::kZstd, 0}});
  array.put(0, long_string(5 << 20));
  array.put(1, long_string(1000));
  const Strings strings = read_strings(array, 0, 2, 2);
  EXPECT_EQ(strings.offsets, (std::vector<uint64_t>{0, 5 << 20, (5 << 20) + 1000}));
  EXPECT_TRUE(std::all_of(strings.characters.begin(), strings.characters.end(),
                          [](std::byte each) { return each == std::byte{'a'}; }));
  // One chunk too many, and two that are too many together.
  array.put(1, long_string(300 << 20));
  EXPECT_THROW(read_strings(array, 0, 2, 2), CorruptData);
  array.put(0, long_string(150 << 20));
  array.put(1, long_string(150 << 20));
  EXPECT_THROW(read_strings(array, 0, 2, 1), CorruptData);
  EXPECT_THROW(read_strings(array, 0, 2, 2), CorruptData);
}

TEST(ReadValues, AStoredChunkIsNotMuchLongerThanItsCells) {
  TestArray array;
  set_ints(array, 4, 4);
  array.info_.pipeline = codec::ChunkPipeline({{codec::ChunkFilterType::kZlib, 0}});
  array.put(0, std::vector<uint8_t>(2 << 20));
  const std::string said = message([&] { ints(array, 0, 4); });
  EXPECT_NE(said.find("a chunk of 16 bytes is stored in 2097152"), std::string::npos) << said;
}

ArrayInfo with_shape(std::vector<uint64_t> shape, std::vector<uint64_t> chunk) {
  ArrayInfo info;
  info.shape = std::move(shape);
  info.chunk_shape = std::move(chunk);
  return info;
}

TEST(ChunkGrid, NumbersAreInCOrder) {
  const ArrayInfo info = with_shape({5, 7, 1}, {2, 3, 4});
  const ChunkGrid grid(info);
  EXPECT_EQ(grid.count(), 9U);
  std::vector<uint64_t> position(3);
  grid.position_of(5, position);
  EXPECT_EQ(position, (std::vector<uint64_t>{1, 2, 0}));
  EXPECT_EQ(info.cells(), 35U);
  EXPECT_EQ(info.chunk_cells(), 24U);
  EXPECT_EQ(info.decoded_bytes(), 96U);
  EXPECT_EQ(with_shape({}, {}).chunk_count(), 1U);
  EXPECT_EQ(with_shape({0, 5}, {1, 1}).chunk_count(), 0U);
}

TEST(ChunkGrid, WhatCannotBeCountedIsCorrupt) {
  const uint64_t huge = uint64_t{1} << 40;
  EXPECT_THROW(ChunkGrid(with_shape({5}, {0})), CorruptData);
  EXPECT_THROW(ChunkGrid(with_shape({5}, {1, 1})), CorruptData);
  EXPECT_THROW(ChunkGrid(with_shape({huge}, {1})), CorruptData);
  EXPECT_THROW(ChunkGrid(with_shape({huge, huge}, {huge, huge})), CorruptData);
  EXPECT_THROW(ChunkGrid(with_shape({1, 1}, {huge, huge})), CorruptData);
  EXPECT_NO_THROW(ChunkGrid(with_shape({uint64_t{1} << 32}, {1})));
  EXPECT_THROW(with_shape({huge, huge}, {1, 1}).cells(), CorruptData);
}

}  // namespace
}  // namespace penstock::format::chunked
