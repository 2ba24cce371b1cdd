#pragma once

#include <cstdint>

// Decides whether and how far ahead rows are announced to the store (RowReader::prefetch). On a
// disk that seeks, or over a network, some hundred requests at a time are several times as fast as
// one for each thread. For data in memory, announcing only adds a tenth to the read. So rows are
// announced from the start until no read goes to the disk, and again as soon as one does. The
// caller's lock guards it.

namespace penstock::pipeline {

class ReadAhead {
 public:
  /// Rows announced at a time: as many as disks and stores take at once, with little page cache.
  static constexpr uint64_t kRows = 1024;

  ReadAhead(uint64_t first_batch, uint64_t batch_count, uint64_t batch_rows) noexcept;

  /// Batches [first, last) to announce before `batch` is read: itself, unless already announced,
  /// and those after it. Call it in the order of batches.
  struct Batches {
    uint64_t first = 0;
    uint64_t last = 0;
  };
  Batches before_read_of(uint64_t batch) noexcept;

  /// Call after an announced batch was read. `from_disk`: announcing or reading went to the disk.
  void after_read(bool from_disk) noexcept;

  bool is_on() const noexcept { return idle_ < kIdleBatches; }

 private:
  static constexpr uint32_t kIdleBatches = 32;

  uint64_t batch_count_;
  uint64_t depth_;      ///< batches
  uint64_t announced_;  ///< batches before it are announced
  uint32_t idle_ = 0;   ///< batches since the last one that came from the disk
};

/// Whether this thread has read from the disk between two moments.
class DiskReads {
 public:
  DiskReads() noexcept : begin_(count()) {}
  bool any() const noexcept { return count() != begin_; }

 private:
  static int64_t count() noexcept;
  int64_t begin_;
};

}  // namespace penstock::pipeline
