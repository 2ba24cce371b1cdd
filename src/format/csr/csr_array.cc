#include "format/csr/csr_array.h"

#include <penstock/error.h>

#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "base/concat.h"
#include "base/threads/parallel.h"
#include "base/types/visit_type.h"
#include "format/cells/stored_ids.h"
#include "format/chunked/read_array.h"
#include "kernel/pack_row.h"

namespace penstock::format {
namespace {

/// Offsets that are decoded at a time: 8 MB.
constexpr uint64_t kOffsetsAtOnce = uint64_t{1} << 20;
/// Units of stores without codecs: reads of about a megabyte.
constexpr int64_t kRowsWithoutCodecs = 512;
/// 10^9 cells of 2,000 non-zeros in the smallest chunks that h5py chooses have twice as many.
constexpr uint64_t kMostChunks = uint64_t{1} << 26;

chunked::ArrayPtr open_part(const chunked::Group& group, const std::string& name) {
  auto array = group.array(name);
  if (!array) throw CorruptData("a CSR matrix has no array '" + name + "', in " + group.path());
  if (array->info().shape.size() != 1) {
    throw CorruptData(concat("an array of a CSR matrix has one dimension, this one has ",
                             array->info().shape.size(), ", in ", array->info().path));
  }
  return array;
}

void expect_ids(const chunked::Array& array) {
  if (!is_integer(array.info().type)) {
    throw CorruptData("indices and indptr are integers, these are " +
                      std::string(name_of(array.info().type)) + ", in " + array.info().path);
  }
}

}  // namespace

std::shared_ptr<const CsrArray> CsrArray::load(const chunked::Group& group, uint64_t rows,
                                               uint64_t columns, unsigned threads) {
  std::shared_ptr<CsrArray> made(new CsrArray());
  made->path_ = group.path();
  auto& data = made->arrays_[static_cast<size_t>(CsrPart::kData)];
  auto& indices = made->arrays_[static_cast<size_t>(CsrPart::kIndices)];
  data = open_part(group, "data");
  indices = open_part(group, "indices");
  const auto indptr = open_part(group, "indptr");
  expect_ids(*indices);
  expect_ids(*indptr);
  with_place([&] { kernel::make_row_layout(columns, data->info().type); },
             [&] { return data->info().path; });
  const uint64_t elements = data->info().shape[0];
  if (indices->info().shape[0] != elements) {
    throw CorruptData(concat("data and indices must be of one length, found ", elements, " and ",
                             indices->info().shape[0], ", in ", made->path_));
  }
  if (indptr->info().shape[0] != rows + 1) {
    throw CorruptData(concat("indptr must have one entry more than there are rows, found ",
                             indptr->info().shape[0], " for ", rows, " rows, in ", made->path_));
  }
  made->info_.row_domain_end = checked_cast<int64_t>(rows, "number of rows");
  made->info_.column_domain_end = checked_cast<int64_t>(columns, "number of columns");
  made->info_.value_type = data->info().type;
  made->indptr_ = indptr;
  // Where a request takes a round trip, the chunks of all arrays are found at the same time.
  parallel_for(kCsrParts + 1, indptr->store().traits().remote ? kCsrParts + 1 : 1, [&](size_t i) {
    if (i == kCsrParts) return made->read_offsets(*indptr, threads);
    made->chunk_bytes_[i] = made->arrays_[i]->stored_bytes_per_chunk();
  });
  if (made->offsets_.element_count() != elements) {
    throw CorruptData(concat("indptr ends at ", made->offsets_.element_count(),
                             ", but data and indices have ", elements, " elements, in ",
                             made->path_));
  }
  for (size_t part = 0; part < kCsrParts; ++part) {
    const auto chunks = made->arrays_[part]->info().chunk_count();
    made->info_.tile_count += chunks;
    made->info_.stored_bytes +=
        static_cast<uint64_t>(made->chunk_bytes_[part] * static_cast<double>(chunks));
  }
  made->info_.stored_cells = elements;
  made->info_.fragment_count = 1;
  made->info_.layout = "csr, " + data->info().layout;
  made->make_units();
  return made;
}

void CsrArray::read_offsets(const chunked::Array& indptr, unsigned threads) {
  const uint64_t count = indptr.info().shape[0];
  for (uint64_t begin = 0; begin < count; begin += kOffsetsAtOnce) {
    const uint64_t end = std::min(count, begin + kOffsetsAtOnce);
    const Buffer offsets = chunked::read_values(indptr, begin, end, threads);
    with_place(
        [&] {
          visit_number(indptr.info().type, [&](auto identity) {
            using Offset = typename decltype(identity)::type;
            for (const Offset offset : offsets.as<Offset>()) {
              offsets_.append(checked_cast<uint64_t>(static_cast<int64_t>(offset), "indptr"));
            }
          });
        },
        [&] { return indptr.info().path; });
  }
}

std::string CsrArray::content() const {
  std::string text = concat("csr ", path_, " ", info_.row_domain_end, " x ",
                            info_.column_domain_end, " ", info_.stored_cells, "\n");
  for (const chunked::Array* array : {arrays_[0].get(), arrays_[1].get(), indptr_.get()}) {
    const std::string version = array->version();
    if (version.empty()) return {};
    text += version + "\n";
  }
  return text;
}

// A tile is a chunk of either array. Only chunks of data carry cells, so that none counts twice.
void CsrArray::make_units() {
  const auto rows = info_.row_domain_end;
  if (addresses_elements(CsrPart::kData) && addresses_elements(CsrPart::kIndices)) {
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
      for (uint64_t begin = 0; begin < offsets_.element_count(); begin += length) {
        const uint64_t end = std::min(offsets_.element_count(), begin + length);
        tiles.push_back({static_cast<int64_t>(offsets_.row_of(begin)),
                         static_cast<int64_t>(offsets_.row_of(end - 1)),
                         static_cast<CsrPart>(part) == CsrPart::kData ? end - begin : 0,
                         static_cast<uint64_t>(chunk_bytes_[part])});
      }
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
  for (uint64_t chunk = first / length; chunk <= (last - 1) / length; ++chunk) {
    const uint64_t begin = std::max(first, chunk * length);
    const uint64_t end = std::min(last, (chunk + 1) * length);
    chunks += rows.intersects(static_cast<int64_t>(offsets_.row_of(begin)),
                              static_cast<int64_t>(offsets_.row_of(end - 1)) + 1);
  }
  return static_cast<uint64_t>(static_cast<double>(chunks) * chunk_bytes(part));
}

}  // namespace penstock::format
