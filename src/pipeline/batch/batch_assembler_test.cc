#include "pipeline/batch/batch_assembler.h"

#include <gtest/gtest.h>
#include <penstock/error.h>

#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "kernel/pack_row.h"

namespace penstock::pipeline {
namespace {

class BatchAssemblerTest : public ::testing::Test {
 protected:
  PackedRowRef add_row(const std::vector<uint32_t>& columns, const std::vector<float>& values,
                       int64_t joinid) {
    const auto* raw = reinterpret_cast<const std::byte*>(values.data());
    const auto nnz = static_cast<uint32_t>(columns.size());
    const uint32_t wide = kernel::choose_wide_count(layout_, raw, nnz);
    records_.emplace_back(layout_.record_bytes(nnz, wide));
    kernel::pack_row(layout_, std::span<const uint32_t>(columns), raw, wide,
                     records_.back().data());
    return {records_.back().data(), joinid * 2, joinid, nnz};
  }
  BatchAssembler assembler(BatchLayout layout, DataType type) {
    return BatchAssembler(layout_, layout, type, 10, columns_, pool_);
  }
  std::shared_ptr<const Batch> assemble(const BatchAssembler& with,
                                        const std::vector<PackedRowRef>& rows) {
    uint64_t nnz = 0;
    for (const auto& row : rows) nnz += row.nnz;
    pool_->reserve(with.batch_bytes(rows.size(), nnz), true);
    return with.assemble(rows);
  }

  kernel::PackedRowLayout layout_ = kernel::make_row_layout(10, DataType::kFloat32);
  std::vector<std::vector<std::byte>> records_;
  std::shared_ptr<MemoryMeter> meter_ = std::make_shared<MemoryMeter>();
  std::shared_ptr<BatchPool> pool_ = std::make_shared<BatchPool>(1 << 20, meter_);
  std::shared_ptr<const std::vector<int64_t>> columns_ =
      std::make_shared<const std::vector<int64_t>>(
          std::vector<int64_t>{100, 101, 102, 103, 104, 105, 106, 107, 108, 109});
};

TEST_F(BatchAssemblerTest, NarrowValuesWhereAllOfABatchFit) {
  const BatchAssembler narrow(layout_, BatchLayout::kCsr, DataType::kFloat32, 10, columns_, pool_,
                              true);
  const auto fits = assemble(narrow, {add_row({1, 9}, {2, 65535}, 7), add_row({0}, {300}, 3)});
  ASSERT_EQ(fits->dtype(), DataType::kUInt16);
  const auto* counts = reinterpret_cast<const uint16_t*>(fits->csr().data);
  EXPECT_EQ(std::vector<uint16_t>(counts, counts + 3), (std::vector<uint16_t>{2, 65535, 300}));
  for (const float odd : {65536.0F, -1.0F, 0.5F, std::numeric_limits<float>::quiet_NaN()}) {
    const auto wide = assemble(narrow, {add_row({1, 9}, {2, 4}, 7), add_row({0}, {odd}, 3)});
    ASSERT_EQ(wide->dtype(), DataType::kFloat32);
    const auto* values = reinterpret_cast<const float*>(wide->csr().data);
    EXPECT_EQ(values[0], 2.0F);
    EXPECT_EQ(values[1], 4.0F);
    EXPECT_EQ(std::memcmp(values + 2, &odd, sizeof odd), 0);
  }
}

TEST_F(BatchAssemblerTest, CsrKeepsDuplicatesAndDenseSumsThem) {
  const std::vector<PackedRowRef> rows{add_row({1, 1, 9}, {2, 3, 0.5F}, 7), add_row({}, {}, 8),
                                       add_row({0}, {1000}, 3)};
  const auto csr = assemble(assembler(BatchLayout::kCsr, DataType::kFloat64), rows);
  EXPECT_EQ(csr->rows(), 3U);
  EXPECT_EQ(csr->nnz(), 4U);
  EXPECT_EQ(std::vector<int32_t>(csr->csr().indptr.begin(), csr->csr().indptr.end()),
            (std::vector<int32_t>{0, 3, 3, 4}));
  EXPECT_EQ(std::vector<int32_t>(csr->csr().indices.begin(), csr->csr().indices.end()),
            (std::vector<int32_t>{1, 1, 9, 0}));
  const auto* values = reinterpret_cast<const double*>(csr->csr().data);
  EXPECT_EQ(std::vector<double>(values, values + 4), (std::vector<double>{2, 3, 0.5, 1000}));
  EXPECT_EQ(csr->joinids()[2], 3);
  EXPECT_EQ(csr->positions()[0], 14);
  EXPECT_THROW(csr->dense(), InvalidArgument);

  const auto dense = assemble(assembler(BatchLayout::kDense, DataType::kFloat32), rows);
  const auto* cells = reinterpret_cast<const float*>(dense->dense());
  EXPECT_EQ(cells[1], 5.0F);
  EXPECT_EQ(cells[9], 0.5F);
  EXPECT_EQ(cells[20], 1000.0F);
  EXPECT_EQ(cells[10], 0.0F);
  EXPECT_THROW(dense->csr(), InvalidArgument);
}

TEST_F(BatchAssemblerTest, AMisfitNamesValueCellAndGene) {
  const std::vector<PackedRowRef> rows{add_row({1, 4}, {2, 300}, 7)};
  for (const BatchLayout layout : {BatchLayout::kCsr, BatchLayout::kDense}) {
    try {
      assemble(assembler(layout, DataType::kUInt8), rows);
      ADD_FAILURE() << "no error";
    } catch (const InvalidArgument& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("300"), std::string::npos) << text;
      EXPECT_NE(text.find("in cell 7, gene 104"), std::string::npos) << text;
    }
  }
  // Two values that fit and whose sum does not.
  const std::vector<PackedRowRef> twice{add_row({1, 1}, {100, 100}, 7)};
  EXPECT_NO_THROW(assemble(assembler(BatchLayout::kCsr, DataType::kInt8), twice));
  EXPECT_THROW(assemble(assembler(BatchLayout::kDense, DataType::kInt8), twice), InvalidArgument);
}

TEST_F(BatchAssemblerTest, MemoryIsUsedAgainAndOutlivesThePool) {
  const auto with = assembler(BatchLayout::kDense, DataType::kFloat32);
  const std::vector<PackedRowRef> rows{add_row({1}, {2}, 7)};
  const std::byte* first = nullptr;
  for (int i = 0; i < 10; ++i) {
    const auto batch = assemble(with, rows);
    if (i == 0) first = batch->dense();
    EXPECT_EQ(batch->dense(), first);
  }
  const uint64_t one = meter_->current();
  EXPECT_EQ(meter_->peak(), one);
  auto kept = assemble(with, rows);
  pool_->close();
  EXPECT_EQ(meter_->current(), one);
  pool_.reset();
  EXPECT_EQ(reinterpret_cast<const float*>(kept->dense())[1], 2.0F);
  kept.reset();
  EXPECT_EQ(meter_->current(), 0U);
}

TEST_F(BatchAssemblerTest, TooManyNonZerosForInt32) {
  EXPECT_THROW(assembler(BatchLayout::kCsr, DataType::kFloat32).batch_bytes(1, uint64_t{1} << 31),
               InvalidArgument);
  EXPECT_NO_THROW(
      assembler(BatchLayout::kDense, DataType::kFloat32).batch_bytes(1, uint64_t{1} << 31));
}

TEST(BatchPool, ReservationsKeepTheLimit) {
  auto meter = std::make_shared<MemoryMeter>();
  auto pool = std::make_shared<BatchPool>(4 * BatchPool::block_bytes(100000), meter);
  std::vector<BatchPool::Block> blocks;
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(pool->reserve(100000, false));
    blocks.push_back(pool->take(100000));
  }
  EXPECT_FALSE(pool->reserve(100000, false));
  EXPECT_TRUE(pool->reserve(100000, true));  // the consumer keeps its batches, and gets one more
  blocks.push_back(pool->take(100000));
  int released = 0;
  pool->set_on_release([&] { ++released; });
  blocks.clear();
  EXPECT_EQ(released, 5);
  EXPECT_EQ(meter->current(), 4 * BatchPool::block_bytes(100000));
  // Another size: idle blocks make room.
  ASSERT_TRUE(pool->reserve(3 * 100000, false));
  const auto large = pool->take(3 * 100000);
  EXPECT_GE(large.capacity, 300000U);
  EXPECT_LE(meter->current(), 4 * BatchPool::block_bytes(100000));
}

}  // namespace
}  // namespace penstock::pipeline
