#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "format/cache/cached_source.h"
#include "format/cache/filled_unit.h"
#include "format/cache/kept_unit.h"

namespace penstock::format::pack {

/// One unit in flight. fetch() finds out who decodes it: KeptUnit if the cache has its rows,
/// FilledUnit if they will be kept, else a decode of the source with the chosen columns alone.
class CachedDecode final : public UnitDecode {
 public:
  explicit CachedDecode(std::shared_ptr<const CachedReader> reader)
      : reader_(std::move(reader)), kept_(*reader_), filled_(*reader_) {}

  void start(uint32_t unit, std::vector<int64_t> rows);
  const CachedReader* reader() const noexcept { return reader_.get(); }

  void fetch() override;
  size_t phase_count() const override { return active_->phase_count(); }
  size_t task_count(size_t phase) const override { return active_->task_count(phase); }
  void run(size_t phase, size_t task) override { active_->run(phase, task); }
  uint32_t row_count() const override { return static_cast<uint32_t>(rows_.size()); }
  uint32_t nnz(uint32_t row) const override { return active_->nnz(row); }
  size_t packed_bytes(uint32_t row) const override { return active_->packed_bytes(row); }
  uint32_t wide_count(uint32_t row) const override { return active_->wide_count(row); }
  void pack(uint32_t row, std::byte* destination) const override {
    active_->pack(row, destination);
  }
  uint64_t bytes_read() const override { return active_->bytes_read(); }
  uint64_t read_count() const override { return active_->read_count(); }
  uint64_t cached_bytes() const override { return active_->cached_bytes(); }
  void take_buffers(UnitDecode& finished) override;

 private:
  bool fetch_kept();

  std::shared_ptr<const CachedReader> reader_;
  uint32_t unit_ = 0;
  std::vector<int64_t> rows_;
  KeptUnit kept_;
  FilledUnit filled_;
  std::unique_ptr<UnitDecode> passed_;  // with the chosen columns; kept for the next unit
  UnitDecode* active_ = nullptr;        // one of the three, from fetch() on
};

}  // namespace penstock::format::pack
