#include "pipeline/stream/units/read_ahead.h"

#include <sys/resource.h>

#include <algorithm>

namespace penstock::pipeline {

ReadAhead::ReadAhead(uint64_t first_batch, uint64_t batch_count, uint64_t batch_rows) noexcept
    : batch_count_(batch_count),
      depth_(std::max<uint64_t>(1, kRows / std::max<uint64_t>(batch_rows, 1))),
      announced_(first_batch) {}

ReadAhead::Batches ReadAhead::before_read_of(uint64_t batch) noexcept {
  announced_ = std::max(announced_, batch);
  if (!is_on()) return {announced_, announced_};
  const uint64_t first = announced_;
  announced_ = std::max(first, std::min(batch_count_, batch + 1 + depth_));
  return {first, announced_};
}

void ReadAhead::after_read(bool from_disk) noexcept {
  if (from_disk) {
    idle_ = 0;
  } else if (is_on()) {
    ++idle_;
  }
}

int64_t DiskReads::count() noexcept {
#if defined(RUSAGE_THREAD)
  struct rusage usage;
  if (::getrusage(RUSAGE_THREAD, &usage) == 0) return usage.ru_inblock;
#endif
  return 0;
}

}  // namespace penstock::pipeline
