#include "format/pack/reader.h"

#include <gtest/gtest.h>
#include <penstock/error.h>

#include <fstream>
#include <numeric>
#include <random>
#include <vector>

#include "base/testing/test_seed.h"
#include "format/pack/testing/packed_rows.h"
#include "io/descriptor_cache.h"

namespace penstock::format::pack {
namespace {

using testing::chosen;
using testing::Entries;
using testing::entries_of;
using testing::make_packed_rows;
using testing::PackedRows;
using testing::TemporaryFolder;

std::vector<int64_t> columns_of(const MatrixInfo& info, std::mt19937_64& random, bool all) {
  std::vector<int64_t> columns;
  for (int64_t c = 0; c < info.column_domain_end; ++c) {
    if (all || random() % 3 == 0) columns.push_back(c);
  }
  return columns;
}

Entries expected(const PackedRows& made, int64_t row, const std::vector<int64_t>& columns) {
  const auto found = made.rows.find(row);
  return found == made.rows.end() ? Entries{} : chosen(found->second, columns);
}

TEST(PackReader, UnitsGiveTheRows) {
  const TestSeed seed(1);
  std::mt19937_64 random(seed);
  for (const bool all : {true, false}) {
    const TemporaryFolder folder;
    const auto made = make_packed_rows(folder, {}, 5);
    const auto source = open_layer(make_layer(made.files, made.info));
    const auto columns = columns_of(made.info, random, all);
    const auto reader = source->reader(columns);
    int64_t covered = 0;
    std::unique_ptr<UnitDecode> decode;
    for (uint32_t unit = 0; unit < source->units().size(); ++unit) {
      const plan::FetchUnit& place = source->units()[unit];
      EXPECT_EQ(place.row_begin, covered);
      covered = place.row_end;
      std::vector<int64_t> rows;
      for (int64_t row = place.row_begin; row < place.row_end; ++row) {
        if (unit % 2 == 0 || random() % 4 == 0) rows.push_back(row);
      }
      decode = reader->start(unit, rows, std::move(decode));
      decode->fetch();
      for (size_t task = 0; task < decode->task_count(0); ++task) decode->run(0, task);
      ASSERT_EQ(decode->row_count(), rows.size());
      for (uint32_t i = 0; i < rows.size(); ++i) {
        std::vector<std::byte> record(decode->packed_bytes(i));
        decode->pack(i, record.data());
        const auto entries = expected(made, rows[i], columns);
        ASSERT_EQ(decode->nnz(i), entries.size());
        ASSERT_EQ(entries_of(record.data(), reader->row_layout()), entries);
      }
      EXPECT_LE(decode->bytes_read(), place.stored_bytes);
      EXPECT_GE(reader->in_flight_bytes(unit), decode->bytes_read());
    }
    EXPECT_EQ(covered, made.info.row_domain_end);
  }
}

TEST(PackReader, RowsInAnyOrder) {
  const TestSeed seed(2);
  std::mt19937_64 random(seed);
  const TemporaryFolder folder;
  const auto made = make_packed_rows(folder, {.row_count = 5000, .rows_per_file = 900}, 6);
  const auto source = open_layer(make_layer(made.files, made.info));
  for (const bool all : {true, false}) {
    const auto columns = columns_of(made.info, random, all);
    const auto rows = source->reader(columns)->row_reader(RowSelection::range(0, 5000));
    ASSERT_NE(rows, nullptr);
    RowBuffer buffer;
    for (const size_t count : std::initializer_list<size_t>{1, 0, 128, 700, 3}) {
      std::vector<int64_t> wanted(count);
      for (int64_t& row : wanted) row = static_cast<int64_t>(random() % 5000);
      rows->prefetch(wanted);
      rows->read(wanted, buffer);
      ASSERT_EQ(buffer.row_count(), count);
      uint64_t nonempty = 0;
      for (size_t i = 0; i < count; ++i) {
        const auto entries = expected(made, wanted[i], columns);
        ASSERT_EQ(entries_of(buffer.records[i], rows->row_layout()), entries);
        ASSERT_EQ(buffer.nnz[i], entries.size());
        ASSERT_EQ(reinterpret_cast<uintptr_t>(buffer.records[i]) % 8, 0U);
        nonempty += entries.empty() ? 0 : 1;
      }
      EXPECT_EQ(buffer.bytes_read != 0, nonempty != 0);
      if (count == 1) {
        EXPECT_EQ(buffer.bytes_read, rows->bytes_needed(wanted));
      }
    }
    EXPECT_THROW(rows->read(std::vector<int64_t>{5000}, buffer), InvalidArgument);
    EXPECT_THROW(rows->read(std::vector<int64_t>{-1}, buffer), InvalidArgument);
    rows->prefetch(std::vector<int64_t>{-1});
    EXPECT_GT(rows->buffer_bytes_per_row(), 100);
  }
}

TEST(PackReader, BytesNeededAreThoseOfTheRecords) {
  const TemporaryFolder folder;
  const auto made = make_packed_rows(folder, {}, 7);
  const auto reader = open_layer(make_layer(made.files, made.info))->reader({});
  uint64_t all = 0;
  for (const auto& file : made.files) all += file->record_bytes();
  EXPECT_EQ(reader->bytes_needed(RowSelection::range(0, 2000)), all);
  const uint64_t some = reader->bytes_needed(RowSelection::range(100, 900));
  const uint64_t rest = reader->bytes_needed(RowSelection::range(0, 100)) +
                        reader->bytes_needed(RowSelection::range(900, 2000));
  EXPECT_EQ(some + rest, all);
}

TEST(PackReader, AFlippedByteNamesRowOffsetAndFile) {
  const TemporaryFolder folder;
  const auto made = make_packed_rows(folder, {.gaps = false}, 8);
  int64_t row = 40;
  RecordPlace place;
  while (made.files[0]->find(row, place) && place.length == 0) ++row;
  const std::string path = folder.file("0.rows");
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(place.offset + place.length / 2));
    const char byte = static_cast<char>(file.get() ^ 4);
    file.seekp(static_cast<std::streamoff>(place.offset + place.length / 2));
    file.put(byte);
  }
  const auto source = open_layer(make_layer(made.files, made.info));
  RowBuffer buffer;
  const std::vector<int64_t> columns = {1, 5};
  const auto reader = source->reader(columns);
  for (const bool by_row : {true, false}) {
    try {
      if (by_row) {
        reader->row_reader(RowSelection::range(0, 5000))->read(std::vector<int64_t>{row}, buffer);
      } else {
        const auto decode = reader->start(0, {row}, nullptr);
        decode->fetch();
        decode->run(0, 0);
      }
      FAIL();
    } catch (const CorruptData& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("row " + std::to_string(row)), std::string::npos) << text;
      EXPECT_NE(text.find("offset " + std::to_string(place.offset)), std::string::npos) << text;
      EXPECT_NE(text.find(path), std::string::npos) << text;
    }
  }
}

TEST(PackReader, FilesThatContradictAreErrors) {
  const TemporaryFolder folder;
  auto made = make_packed_rows(folder, {}, 9);
  auto twice = made.files;
  twice.push_back(twice[1]);
  EXPECT_THROW(make_layer(twice, made.info), CorruptData);
  auto info = made.info;
  info.value_type = DataType::kInt32;
  EXPECT_THROW(make_layer(made.files, info), CorruptData);
  info = made.info;
  info.row_domain_end = 10;
  EXPECT_THROW(make_layer(made.files, info), CorruptData);
}

TEST(PackReader, ColumnsThatAreNotKept) {
  const TemporaryFolder folder;
  auto made = make_packed_rows(folder, {}, 10);
  made.info.column_domain_end = int64_t{1} << 62;
  const auto source = open_layer(make_layer(made.files, made.info));
  const std::vector<int64_t> columns = {3, 299, int64_t{1} << 40};
  const auto rows = source->reader(columns)->row_reader(RowSelection::range(0, 5000));
  RowBuffer buffer;
  rows->read(std::vector<int64_t>{7, 8}, buffer);
  EXPECT_EQ(entries_of(buffer.records[1], rows->row_layout()), expected(made, 8, columns));
  EXPECT_THROW(source->reader(std::vector<int64_t>{3, 2}), InvalidArgument);
}

}  // namespace
}  // namespace penstock::format::pack
