#include "format/sampled_rows.h"

#include <algorithm>
#include <numeric>

namespace penstock::format {
namespace {

/// Half of the smallest budget in use. Chunks as zarr and h5py choose them have some MB.
constexpr uint64_t kMostBytes = uint64_t{32} << 20;

}  // namespace

std::vector<int64_t> rows_to_sample(const MatrixReader& reader, uint32_t unit,
                                    const plan::FetchUnit& place, int64_t most, SampledPart part) {
  const int64_t all = place.row_end - place.row_begin;
  std::vector<int64_t> rows;
  for (int64_t count = std::min(most, all); count > 0; count /= 2) {
    const int64_t first = place.row_begin + (part == SampledPart::kMiddle ? (all - count) / 2 : 0);
    rows.resize(static_cast<size_t>(count));
    std::iota(rows.begin(), rows.end(), first);
    if (reader.decode_bytes(unit, rows) <= kMostBytes) return rows;
  }
  return {};
}

}  // namespace penstock::format
