#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "format/matrix_source.h"
#include "format/pack/reader.h"
#include "format/pack/record_rows.h"

// One fetch unit of a packed layer in flight (see format/matrix_source.h for the calls).

namespace penstock::format::pack {

class PackUnitDecode final : public UnitDecode {
 public:
  explicit PackUnitDecode(std::shared_ptr<const PackReader> reader) : reader_(std::move(reader)) {}

  void start(std::vector<int64_t> rows) {
    rows_ = std::move(rows);
    stored_.clear();
    for (const int64_t row : rows_) stored_.push_back(reader_->layer().find(row));
    records_.start(rows_, stored_, reader_->layer().files, reader_->unpacker());
  }
  const PackReader* reader() const noexcept { return reader_.get(); }

  void fetch() override { records_.fetch(); }
  size_t phase_count() const override { return 1; }
  size_t task_count(size_t /*phase*/) const override { return records_.task_count(); }
  void run(size_t /*phase*/, size_t task) override { records_.run(task); }
  uint32_t row_count() const override { return static_cast<uint32_t>(rows_.size()); }
  uint32_t nnz(uint32_t row) const override { return records_.nnz(row); }
  size_t packed_bytes(uint32_t row) const override { return records_.packed_bytes(row); }
  uint32_t wide_count(uint32_t row) const override { return records_.wide_count(row); }
  void pack(uint32_t row, std::byte* destination) const override {
    records_.pack(row, destination);
  }
  uint64_t bytes_read() const override { return records_.bytes_read(); }
  uint64_t read_count() const override { return records_.read_count(); }

 private:
  std::shared_ptr<const PackReader> reader_;
  std::vector<int64_t> rows_;
  std::vector<RowLocation> stored_;  // by row
  RecordRows records_;
};

}  // namespace penstock::format::pack
