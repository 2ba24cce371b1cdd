#include "format/csc/csc_array.h"

#include <penstock/error.h>

#include <algorithm>
#include <limits>

#include "base/concat.h"
#include "format/chunked/forward_array.h"
#include "kernel/pack_row.h"

namespace penstock::format {

std::shared_ptr<const CscArray> CscArray::load(const chunked::Group& group, uint64_t rows,
                                               uint64_t columns, unsigned threads) {
  std::shared_ptr<CscArray> made(new CscArray());
  made->path_ = group.path();
  if (rows > std::numeric_limits<uint32_t>::max()) {
    throw Unsupported(
        concat("a CSC matrix of ", rows, " cells, at most 2^32 - 1 are read, in ", made->path_));
  }
  made->arrays_ = open_compressed(group, {"CSC", "column"}, columns);
  const chunked::ArrayInfo& data = made->arrays_.data->info();
  with_place([&] { kernel::make_row_layout(columns, data.type); }, [&] { return data.path; });
  read_offsets(*made->arrays_.indptr, threads, [&](std::span<const uint64_t> offsets) {
    for (const uint64_t offset : offsets) made->append_offset(offset);
  });
  expect_all_elements(made->arrays_, made->offsets_.back(), made->path_);
  made->info_ = compressed_info(made->arrays_, rows, columns, "csc (stored by genes)");
  made->info_.stored_by_columns = true;
  return made;
}

void CscArray::append_offset(uint64_t offset) {
  if (offsets_.empty() && offset != 0) {
    throw CorruptData(concat("indptr must begin with 0, not with ", offset));
  }
  if (!offsets_.empty() && offset < offsets_.back()) {
    throw CorruptData(concat("indptr falls from ", offsets_.back(), " to ", offset,
                             " after column ", offsets_.size() - 1));
  }
  offsets_.push_back(offset);
}

uint64_t CscArray::column_of(uint64_t element) const noexcept {
  const auto after = std::upper_bound(offsets_.begin(), offsets_.end(), element);
  return static_cast<uint64_t>(after - offsets_.begin()) - 1;
}

std::shared_ptr<const CscArray> CscArray::in_order() const {
  const auto forward = chunked::forward_arrays({arrays_.indices, arrays_.data});
  if (forward.empty()) return nullptr;
  std::shared_ptr<CscArray> made(new CscArray(*this));
  made->arrays_.indices = forward[0];
  made->arrays_.data = forward[1];
  return made;
}

std::string CscArray::content() const {
  const std::string versions = arrays_.content();
  if (versions.empty()) return {};
  return concat("csc ", path_, " ", info_.row_domain_end, " x ", info_.column_domain_end, " ",
                info_.stored_cells, "\n", versions);
}

}  // namespace penstock::format
