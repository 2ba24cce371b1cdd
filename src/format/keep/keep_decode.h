#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "format/keep/keep_reader.h"

namespace penstock::format {

/// One unit in flight: its rows are kept, or another decode makes them and they are kept on the
/// way.
class KeepDecode final : public UnitDecode {
 public:
  explicit KeepDecode(std::shared_ptr<const KeepReader> reader) : reader_(std::move(reader)) {}
  ~KeepDecode() override { give_up(); }

  const KeepReader* reader() const noexcept { return reader_.get(); }
  void start(uint32_t unit, std::vector<int64_t> rows);

  void fetch() override {
    if (!was_kept_) inner_->fetch();
  }
  size_t phase_count() const override;
  size_t task_count(size_t phase) const override;
  void run(size_t phase, size_t task) override;

  uint32_t row_count() const override { return static_cast<uint32_t>(rows_.size()); }
  uint32_t nnz(uint32_t row) const override;
  size_t packed_bytes(uint32_t row) const override;
  uint32_t wide_count(uint32_t row) const override;
  void pack(uint32_t row, std::byte* destination) const override;

  uint64_t bytes_read() const override { return was_kept_ ? 0 : inner_->bytes_read(); }
  uint64_t read_count() const override { return was_kept_ ? 0 : inner_->read_count(); }
  uint64_t cached_bytes() const override { return was_kept_ ? 0 : inner_->cached_bytes(); }
  KeptRecord kept(uint32_t row) const override {
    return is_kept(row) ? places_[row].record() : KeptRecord();
  }
  bool was_kept() const override { return was_kept_; }
  void take_buffers(UnitDecode& finished) override;

 private:
  enum KeepPhase : size_t { kMeasure, kCopy, kPublish, kKeepPhases };

  bool is_kept(uint32_t row) const noexcept { return places_[row].block != nullptr; }
  /// The rows that are not kept, and those that are kept for a later visit or epoch.
  std::vector<int64_t> rows_to_decode(const KeptUnitRows& kept) const;
  void measure();
  void copy_wide(size_t begin, size_t end);
  void copy_packed(size_t begin, size_t end);
  void publish();
  void give_up() noexcept;

  const std::shared_ptr<const KeepReader> reader_;
  uint32_t unit_ = 0;
  std::vector<int64_t> rows_;
  bool was_kept_ = false;
  bool is_keeping_ = false;            ///< the rows are being copied, to stay
  std::vector<KeptPlace> places_;      ///< of the rows; of no block while the other decode has them
  std::vector<uint32_t> inner_rows_;   ///< of those rows, in the other decode
  std::unique_ptr<UnitDecode> inner_;  ///< the other decode; reused for the next unit

  std::shared_ptr<KeptBlock> making_;  ///< null: the unit will not be kept
  std::atomic<bool> too_large_{false};
  std::atomic<uint64_t> reserved_{0};
};

}  // namespace penstock::format
