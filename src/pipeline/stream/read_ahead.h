#pragma once

#include <cstdint>

// Whether rows are announced to the store before they are read (RowReader::prefetch), and how far
// ahead. On a disk that has to seek or to wait for a network, some hundred requests at a time are
// several times as fast as one for each thread; from memory, announcing costs a tenth of the read
// for nothing. So it is done while it brings anything: from the start, and again as soon as a read
// went to the disk. The caller's lock guards it.

namespace penstock::pipeline {

class ReadAhead {
 public:
  /// Rows on their way at a time: what disks and stores take at once, and little memory of the
  /// page cache.
  static constexpr uint64_t kRows = 1024;

  ReadAhead(uint64_t first_batch, uint64_t batch_count, uint64_t batch_rows) noexcept;

  /// Batches [first, last) to announce now that `batch` is about to be read: itself, if that was
  /// not done before, and those after it. To be called in the order of batches.
  struct Batches {
    uint64_t first = 0;
    uint64_t last = 0;
  };
  Batches before_read_of(uint64_t batch) noexcept;

  /// A batch was announced and read; `from_disk` if either went to the disk.
  void after_read(bool from_disk) noexcept;

  bool is_on() const noexcept { return idle_ < kIdleBatches; }

 private:
  static constexpr uint32_t kIdleBatches = 32;

  uint64_t batch_count_;
  uint64_t depth_;      ///< batches
  uint64_t announced_;  ///< batches before it have been
  uint32_t idle_ = 0;   ///< batches since one came from the disk
};

/// Whether this thread has asked the disk for anything between two moments.
class DiskReads {
 public:
  DiskReads() noexcept : begin_(count()) {}
  bool any() const noexcept { return count() != begin_; }

 private:
  static int64_t count() noexcept;
  int64_t begin_;
};

}  // namespace penstock::pipeline
