#include "format/csr/csr_array.h"

#include <penstock/error.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/concat.h"
#include "base/threads/parallel.h"
#include "format/chunked/forward_array.h"
#include "kernel/pack_row.h"

namespace penstock::format {
namespace {

/// Units of stores without codecs: reads of about a megabyte.
constexpr int64_t kRowsWithoutCodecs = 512;
/// 10^9 cells of 2,000 non-zeros in the smallest chunks that h5py chooses have twice as many.
constexpr uint64_t kMostChunks = uint64_t{1} << 26;

}  // namespace

std::shared_ptr<const CsrArray> CsrArray::load(const chunked::Group& group, uint64_t rows,
                                               uint64_t columns, unsigned threads) {
  std::shared_ptr<CsrArray> made(new CsrArray());
  made->path_ = group.path();
  made->arrays_ = open_compressed(group, {"CSR", "row"}, rows);
  const chunked::ArrayInfo& data = made->arrays_.data->info();
  with_place([&] { kernel::make_row_layout(columns, data.type); }, [&] { return data.path; });
  // The chunks of all arrays are found at the same time, also where a request takes a round trip.
  const chunked::Array& indptr = *made->arrays_.indptr;
  parallel_for(
      kCsrParts + 1, indptr.store().traits().remote ? kCsrParts + 1 : threads, [&](size_t i) {
        if (i != kCsrParts) {
          made->chunk_bytes_[i] = made->array(static_cast<CsrPart>(i)).stored_bytes_per_chunk();
          return;
        }
        read_offsets(indptr, threads, [&](std::span<const uint64_t> offsets) {
          for (const uint64_t offset : offsets) made->offsets_.append(offset);
        });
      });
  expect_all_elements(made->arrays_, made->offsets_.element_count(), made->path_);
  made->info_ = compressed_info(made->arrays_, rows, columns, "csr");
  made->make_units();
  return made;
}

std::shared_ptr<const CsrArray> CsrArray::in_order() const {
  const auto forward = chunked::forward_arrays({arrays_.indices, arrays_.data});
  if (forward.empty()) return nullptr;
  std::shared_ptr<CsrArray> made(new CsrArray(*this));
  made->arrays_.indices = forward[0];
  made->arrays_.data = forward[1];
  made->units_.clear();
  made->make_units();
  return made;
}

std::string CsrArray::content() const {
  const std::string versions = arrays_.content();
  if (versions.empty()) return {};
  return concat("csr ", path_, " ", info_.row_domain_end, " x ", info_.column_domain_end, " ",
                info_.stored_cells, "\n", versions);
}

// A tile is a chunk of either array. Only chunks of data carry cells, so that none counts twice.
void CsrArray::make_units() {
  const auto rows = info_.row_domain_end;
  if (addresses_elements()) {
    for (int64_t begin = 0; begin < rows; begin += kRowsWithoutCodecs) {
      const int64_t end = std::min(rows, begin + kRowsWithoutCodecs);
      units_.push_back({begin, end, 0, 0, 1});
    }
  } else {
    if (info_.tile_count > kMostChunks) {
      throw Unsupported(concat("data and indices have ", info_.tile_count,
                               " chunks together; write the matrix with larger chunks, in ",
                               path_));
    }
    std::vector<plan::TileRows> tiles;
    for (size_t part = 0; part < kCsrParts; ++part) {
      const uint64_t length = chunk_length(static_cast<CsrPart>(part));
      const auto before = static_cast<ptrdiff_t>(tiles.size());
      uint64_t row = 0;
      for (uint64_t begin = 0; begin < offsets_.element_count(); begin += length) {
        const uint64_t end = std::min(offsets_.element_count(), begin + length);
        const uint64_t first = offsets_.row_of(begin, row);
        row = offsets_.row_of(end - 1, first);
        tiles.push_back({static_cast<int64_t>(first), static_cast<int64_t>(row),
                         static_cast<CsrPart>(part) == CsrPart::kData ? end - begin : 0,
                         static_cast<uint64_t>(chunk_bytes_[part])});
      }
      // In order, as they are nearly always needed.
      std::inplace_merge(tiles.begin(), tiles.begin() + before, tiles.end(),
                         [](const plan::TileRows& a, const plan::TileRows& b) {
                           return std::tie(a.row_first, a.row_last) <
                                  std::tie(b.row_first, b.row_last);
                         });
    }
    plan::FetchUnitOptions options;
    options.min_tiles *= kCsrParts;  // a boundary cuts a chunk of each array
    units_ = plan::make_fetch_units(tiles, 0, rows, options);
  }
  const RowSelection all = RowSelection::range(0, rows);
  for (plan::FetchUnit& unit : units_) {
    unit.cell_bound = offsets_.begin(static_cast<uint64_t>(unit.row_end)) -
                      offsets_.begin(static_cast<uint64_t>(unit.row_begin));
    unit.stored_bytes = bytes_of(all, unit.row_begin, unit.row_end);
  }
}

uint64_t CsrArray::bytes_of(const RowSelection& rows, int64_t row_begin, int64_t row_end) const {
  uint64_t bytes = 0;
  for (size_t part = 0; part < kCsrParts; ++part) {
    bytes += bytes_of_elements(static_cast<CsrPart>(part), rows, row_begin, row_end);
  }
  return bytes;
}

uint64_t CsrArray::bytes_of_elements(CsrPart part, const RowSelection& rows, int64_t row_begin,
                                     int64_t row_end) const {
  const uint64_t first = offsets_.begin(static_cast<uint64_t>(row_begin));
  const uint64_t last = offsets_.begin(static_cast<uint64_t>(row_end));
  if (first == last) return 0;
  if (addresses_elements(part)) {
    uint64_t elements = 0;
    std::vector<int64_t> chosen;
    for (int64_t begin = row_begin; begin < row_end; begin += kRowsWithoutCodecs) {
      chosen.clear();
      rows.copy_range(begin, std::min(row_end, begin + kRowsWithoutCodecs), chosen);
      for (const int64_t row : chosen) {
        elements +=
            offsets_.end(static_cast<uint64_t>(row)) - offsets_.begin(static_cast<uint64_t>(row));
      }
    }
    return elements * array(part).info().cell_bytes;
  }
  const uint64_t length = chunk_length(part);
  uint64_t chunks = 0;
  auto row = static_cast<uint64_t>(row_begin);
  for (uint64_t chunk = first / length; chunk <= (last - 1) / length; ++chunk) {
    const uint64_t begin = std::max(first, chunk * length);
    const uint64_t end = std::min(last, (chunk + 1) * length);
    const uint64_t first_row = offsets_.row_of(begin, row);
    row = offsets_.row_of(end - 1, first_row);
    chunks += rows.intersects(static_cast<int64_t>(first_row), static_cast<int64_t>(row) + 1);
  }
  return static_cast<uint64_t>(static_cast<double>(chunks) * chunk_bytes(part));
}

}  // namespace penstock::format
