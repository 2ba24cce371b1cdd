#include "format/csr/compressed_arrays.h"

#include <penstock/error.h>

#include <algorithm>
#include <vector>

#include "base/checked.h"
#include "base/concat.h"
#include "base/types/visit_type.h"
#include "format/chunked/read_array.h"

namespace penstock::format {
namespace {

/// Offsets that are decoded at a time: 8 MB.
constexpr uint64_t kOffsetsAtOnce = uint64_t{1} << 20;

chunked::ArrayPtr open_part(const chunked::Group& group, const CompressedKind& kind,
                            const std::string& name) {
  auto array = group.array(name);
  if (!array) {
    throw CorruptData(
        concat("a ", kind.name, " matrix has no array '", name, "', in ", group.path()));
  }
  if (array->info().shape.size() != 1) {
    throw CorruptData(concat("an array of a ", kind.name,
                             " matrix has one dimension, this one has ", array->info().shape.size(),
                             ", in ", array->info().path));
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

std::string CompressedArrays::content() const {
  std::string text;
  for (const chunked::Array* array : {indices.get(), data.get(), indptr.get()}) {
    const std::string version = array->version();
    if (version.empty()) return {};
    text += version + "\n";
  }
  return text;
}

CompressedArrays open_compressed(const chunked::Group& group, const CompressedKind& kind,
                                 uint64_t lines) {
  CompressedArrays arrays;
  arrays.data = open_part(group, kind, "data");
  arrays.indices = open_part(group, kind, "indices");
  arrays.indptr = open_part(group, kind, "indptr");
  expect_ids(*arrays.indices);
  expect_ids(*arrays.indptr);
  arrays.elements = arrays.data->info().shape[0];
  const uint64_t ids = arrays.indices->info().shape[0];
  if (ids != arrays.elements) {
    throw CorruptData(concat("data and indices must be of one length, found ", arrays.elements,
                             " and ", ids, ", in ", group.path()));
  }
  const uint64_t offsets = arrays.indptr->info().shape[0];
  if (offsets == 0 || offsets - 1 != lines) {
    throw CorruptData(concat("indptr must have one entry more than there are ", kind.line,
                             "s, found ", offsets, " for ", lines, " ", kind.line, "s, in ",
                             group.path()));
  }
  return arrays;
}

void read_offsets(const chunked::Array& indptr, unsigned threads,
                  const std::function<void(std::span<const uint64_t>)>& take) {
  const uint64_t count = indptr.info().shape[0];
  std::vector<uint64_t> offsets;
  for (uint64_t begin = 0; begin < count; begin += kOffsetsAtOnce) {
    const uint64_t end = std::min(count, begin + kOffsetsAtOnce);
    const Buffer stored = chunked::read_values(indptr, begin, end, threads);
    offsets.clear();
    with_place(
        [&] {
          visit_number(indptr.info().type, [&](auto identity) {
            using Offset = typename decltype(identity)::type;
            for (const Offset offset : stored.as<Offset>()) {
              offsets.push_back(checked_cast<uint64_t>(static_cast<int64_t>(offset), "indptr"));
            }
          });
          take(offsets);
        },
        [&] { return indptr.info().path; });
  }
}

void expect_all_elements(const CompressedArrays& arrays, uint64_t last, const std::string& path) {
  if (last == arrays.elements) return;
  throw CorruptData(concat("indptr ends at ", last, ", but data and indices have ", arrays.elements,
                           " elements, in ", path));
}

MatrixInfo compressed_info(const CompressedArrays& arrays, uint64_t rows, uint64_t columns,
                           std::string_view layout) {
  MatrixInfo info;
  info.row_domain_end = checked_cast<int64_t>(rows, "number of rows");
  info.column_domain_end = checked_cast<int64_t>(columns, "number of columns");
  info.value_type = arrays.data->info().type;
  for (const chunked::Array* array : {arrays.indices.get(), arrays.data.get()}) {
    const auto chunks = array->info().chunk_count();
    info.tile_count += chunks;
    info.stored_bytes +=
        static_cast<uint64_t>(array->stored_bytes_per_chunk() * static_cast<double>(chunks));
  }
  info.stored_cells = arrays.elements;
  info.fragment_count = 1;
  info.layout = concat(layout, ", ", arrays.data->info().layout);
  return info;
}

}  // namespace penstock::format
