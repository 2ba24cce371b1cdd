#include "plan/cut/batch_cut.h"

namespace penstock::plan {

std::vector<uint32_t> batch_reach(const BucketLayout& layout, const BatchCut& cut) {
  const size_t buckets = layout.bucket_count();
  std::vector<uint32_t> reach(buckets, 0);
  size_t last = 0;
  for (size_t bucket = 0; bucket < buckets; ++bucket) {
    const uint64_t end = layout.bucket_begin(bucket + 1);
    if (end == layout.bucket_begin(bucket)) continue;  // no batch begins here
    const uint64_t batch_end = cut.begin(cut.batch_of(end - 1) + 1);
    last = std::max(last, bucket);
    while (last + 1 < buckets && layout.bucket_begin(last + 1) < batch_end) ++last;
    reach[bucket] = static_cast<uint32_t>(layout.last_visit(last) - layout.last_visit(bucket));
  }
  return reach;
}

}  // namespace penstock::plan
