#include "format/row_file/row_record.h"

#include <gtest/gtest.h>
#include <penstock/error.h>

#include <cstring>
#include <random>
#include <vector>

#include "base/testing/test_seed.h"
#include "format/row_file/testing/random_row.h"
#include "kernel/unpack_row.h"

namespace penstock::format::pack {
namespace {

using kernel::make_row_layout;
using kernel::PackedRowLayout;
using kernel::PackedRowView;
using testing::kNumberTypes;
using testing::kRowKinds;
using testing::random_packed_row;
using testing::RowKind;

constexpr VectorPath kPaths[] = {VectorPath::kScalar, VectorPath::kAvx2};

bool runs_here(VectorPath path) {
  return path == VectorPath::kScalar || best_vector_path() == path;
}

std::vector<std::byte> stored(RowEncoder& encoder, const std::vector<std::byte>& row) {
  std::vector<std::byte> bytes;
  const size_t length = encoder.append(row.data(), bytes);
  EXPECT_EQ(bytes.size(), length);
  EXPECT_EQ(length % kRecordAlignment, 0U);
  return bytes;
}

/// Decoded from memory of exactly the size and slack that the header promises.
std::vector<std::byte> decoded(const RowDecoder& decoder, const std::vector<std::byte>& bytes) {
  std::vector<std::byte> padded = bytes;
  padded.resize(bytes.size() + kRecordSlack, std::byte{0xA5});
  const auto record = std::span(padded).first(bytes.size());
  const RowShape shape = decoder.shape(record);
  std::vector<std::byte> row(decoder.layout().record_bytes(shape.nnz, shape.wide_count));
  decoder.decode(record, shape, row.data());
  return row;
}

/// Checks what kernels assume of a packed row.
void expect_valid(const std::vector<std::byte>& row, const PackedRowLayout& layout,
                  uint64_t column_count) {
  const auto view = PackedRowView::of(row.data(), layout);
  uint32_t escapes = 0;
  uint32_t least = 0;
  for (uint32_t i = 0; i < view.nnz; ++i) {
    const uint32_t column = kernel::entry_column(view, layout, i);
    ASSERT_LT(column, column_count);
    ASSERT_GE(column, least);
    least = column;
    escapes += view.codes != nullptr && view.codes[i] == 255 ? 1U : 0U;
  }
  if (view.codes != nullptr) {
    ASSERT_EQ(escapes, view.wide_count);
  }
}

TEST(RowRecord, RoundTripOfEveryKind) {
  const TestSeed seed(1);
  std::mt19937_64 random(seed);
  for (const DataType type : kNumberTypes) {
    for (const uint32_t columns : {1U, 50U, 3000U, 65536U, 65537U, 100000U}) {
      const auto layout = make_row_layout(columns, type);
      RowEncoder encoder(layout, columns);
      RowEncoder scalar(layout, columns, VectorPath::kScalar);
      for (const RowKind kind : kRowKinds) {
        for (const uint32_t wanted : {0U, 1U, 15U, 127U, 128U, 129U, 700U, 3000U}) {
          const uint32_t nnz = std::min(wanted, columns);
          const bool repeats = nnz > 1 && random() % 4 == 0;
          const auto row = random_packed_row(random, layout, kind, nnz, columns, repeats);
          const auto bytes = stored(encoder, row);
          ASSERT_EQ(stored(scalar, row), bytes);
          for (const VectorPath path : kPaths) {
            if (!runs_here(path)) continue;
            const RowDecoder decoder(layout, columns, path);
            ASSERT_TRUE(decoder.intact(bytes));
            ASSERT_EQ(decoded(decoder, bytes), row)
                << name_of(type) << ", " << columns << " columns, " << nnz << " non-zeros";
          }
        }
      }
    }
  }
}

TEST(RowRecord, EmptyRowsTakeNothing) {
  const auto layout = make_row_layout(10, DataType::kInt32);
  RowEncoder encoder(layout, 10);
  const auto row = testing::packed_row(layout, {}, nullptr);
  EXPECT_TRUE(stored(encoder, row).empty());
  EXPECT_EQ(RowDecoder(layout, 10).shape({}).nnz, 0U);
}

TEST(RowRecord, FullRowsAndTheLastColumn) {
  for (const uint32_t columns : {16U, 256U, 65535U, 65536U, 70000U}) {
    const auto layout = make_row_layout(columns, DataType::kFloat32);
    RowEncoder encoder(layout, columns);
    std::vector<uint32_t> all(columns);
    for (uint32_t i = 0; i < columns; ++i) all[i] = i;
    const std::vector<float> ones(columns, 1.0F);
    const auto row =
        testing::packed_row(layout, all, reinterpret_cast<const std::byte*>(ones.data()));
    const auto bytes = stored(encoder, row);
    EXPECT_LE(bytes.size(), 4 * (columns / 128 + 1) + 16);  // no bits at all
    EXPECT_EQ(decoded(RowDecoder(layout, columns), bytes), row);
    // A matrix of one column less has no place for it.
    EXPECT_THROW(decoded(RowDecoder(layout, columns - 1), bytes), CorruptData);
  }
}

// Counts as of a cell: most are 1, genes of very different abundance.
TEST(RowRecord, CountsTakeFewBytes) {
  std::mt19937_64 random(2);
  constexpr uint32_t kColumns = 60000;
  std::vector<double> share(kColumns);
  for (double& s : share) s = 0.005 * std::pow(std::exponential_distribution<>()(random), 3);
  const auto layout = make_row_layout(kColumns, DataType::kFloat32);
  RowEncoder encoder(layout, kColumns);
  size_t bytes = 0;
  size_t nnz = 0;
  for (int i = 0; i < 20; ++i) {
    std::vector<uint32_t> columns;
    std::vector<float> values;
    for (uint32_t c = 0; c < kColumns; ++c) {
      if (std::uniform_real_distribution<>()(random) >= share[c]) continue;
      columns.push_back(c);
      values.push_back(static_cast<float>(1 + std::geometric_distribution<int>(0.6)(random)));
    }
    nnz += columns.size();
    bytes += stored(encoder, testing::packed_row(layout, columns,
                                                 reinterpret_cast<const std::byte*>(values.data())))
                 .size();
  }
  EXPECT_LT(static_cast<double>(bytes) / static_cast<double>(nnz), 1.3);
}

TEST(RowRecord, EveryFlippedBitIsSeen) {
  const TestSeed seed(3);
  std::mt19937_64 random(seed);
  const auto layout = make_row_layout(500, DataType::kInt32);
  RowEncoder encoder(layout, 500);
  const RowDecoder decoder(layout, 500);
  auto bytes = stored(encoder, random_packed_row(random, layout, RowKind::kMixed, 90, 500, false));
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_FALSE(decoder.intact(bytes));
    bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
  }
  EXPECT_TRUE(decoder.intact(bytes));
  EXPECT_FALSE(decoder.intact(std::span(bytes).first(3)));
}

// Bytes with a right checksum, from somebody who means harm: a valid row or an error.
TEST(RowRecord, HostileBytesAreErrorsOrRows) {
  const TestSeed seed(4);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 300; ++round) {
    const uint32_t columns = round % 3 == 0 ? 65536 : round % 3 == 1 ? 300 : 70000;
    const auto layout = make_row_layout(columns, kNumberTypes[random() % std::size(kNumberTypes)]);
    RowEncoder encoder(layout, columns);
    auto bytes = stored(encoder, random_packed_row(random, layout, kRowKinds[random() % 5],
                                                   1 + static_cast<uint32_t>(random() % 290),
                                                   columns, random() % 3 == 0));
    if (round % 2 == 0) {
      bytes.resize(random() % bytes.size());
    } else {
      for (int i = 0; i < 3; ++i) bytes[4 + random() % (bytes.size() - 4)] = std::byte(random());
    }
    for (const VectorPath path : kPaths) {
      if (!runs_here(path)) continue;
      try {
        expect_valid(decoded(RowDecoder(layout, columns, path), bytes), layout, columns);
      } catch (const CorruptData&) {
      }
    }
  }
}

TEST(RowRecord, TruncationAtEveryLength) {
  const TestSeed seed(5);
  std::mt19937_64 random(seed);
  const auto layout = make_row_layout(5000, DataType::kFloat32);
  RowEncoder encoder(layout, 5000);
  const RowDecoder decoder(layout, 5000);
  for (const RowKind kind : kRowKinds) {
    const auto bytes = stored(encoder, random_packed_row(random, layout, kind, 300, 5000, false));
    // Four bytes may be padding and what the last number does not use.
    for (size_t length = 1; length + 4 < bytes.size(); ++length) {
      EXPECT_THROW(
          decoded(decoder, {bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(length)}),
          CorruptData);
    }
  }
}

TEST(RowRecord, TooManyColumns) {
  EXPECT_THROW(RowEncoder(make_row_layout(100, DataType::kInt8), 65537), InvalidArgument);
  EXPECT_THROW(RowDecoder(make_row_layout(100000, DataType::kInt8), (uint64_t{1} << 31) + 1),
               InvalidArgument);
}

}  // namespace
}  // namespace penstock::format::pack
