#include "format/joined/row_reader.h"

#include <penstock/error.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "base/concat.h"

namespace penstock::format {

/// Rows to read from one part.
struct JoinedRowReader::Share {
  std::vector<int64_t> rows;
  std::vector<size_t> places;  ///< index of those rows among all that are read
};

struct JoinedRowReader::Scratch final : RowBuffer::Scratch {
  std::vector<Share> shares;
  std::vector<RowBuffer> buffers;  ///< of each part
  std::vector<size_t> offsets;     ///< by place, of renumbered rows
  kernel::RepackScratch repack;

  size_t memory_bytes() const noexcept override {
    size_t bytes = offsets.capacity() * sizeof(size_t);
    for (const RowBuffer& buffer : buffers) bytes += buffer.memory_bytes();
    return bytes;
  }
};

void JoinedRowReader::divide(std::span<const int64_t> rows, std::vector<Share>& shares) const {
  shares.resize(parts_.size());
  for (Share& share : shares) {
    share.rows.clear();
    share.places.clear();
  }
  const auto& parts = matrix_->parts;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto after =
        std::upper_bound(parts.begin(), parts.end(), rows[i],
                         [](int64_t row, const JoinedPart& part) { return row < part.row_offset; });
    const auto index = static_cast<size_t>(after - parts.begin());
    if (index == 0 || parts_[index - 1] == nullptr ||
        rows[i] - parts[index - 1].row_offset >= parts[index - 1].row_end) {
      throw InvalidArgument(concat("no such row in the joined matrices: ", rows[i]));
    }
    shares[index - 1].rows.push_back(rows[i] - parts[index - 1].row_offset);
    shares[index - 1].places.push_back(i);
  }
}

bool JoinedRowReader::rewrites(size_t part) const {
  return !reader_->part(part).same_layout || !reader_->part(part).numbers.identity;
}

void JoinedRowReader::read(std::span<const int64_t> rows, RowBuffer& out) const {
  auto* scratch = dynamic_cast<Scratch*>(out.scratch.get());
  if (scratch == nullptr) {
    auto made = std::make_unique<Scratch>();
    scratch = made.get();
    out.scratch = std::move(made);
  }
  divide(rows, scratch->shares);
  scratch->buffers.resize(parts_.size());
  scratch->offsets.resize(rows.size());
  out.records.resize(rows.size());
  out.nnz.resize(rows.size());
  out.bytes_read = out.cached_bytes = out.read_count = 0;
  size_t bytes = 0;
  for (size_t part = 0; part < parts_.size(); ++part) {
    const Share& share = scratch->shares[part];
    if (share.rows.empty()) continue;
    RowBuffer& buffer = scratch->buffers[part];
    parts_[part]->read(share.rows, buffer);
    out.bytes_read += buffer.bytes_read;
    out.cached_bytes += buffer.cached_bytes;
    out.read_count += buffer.read_count;
    const auto& own = parts_[part]->row_layout();
    for (size_t i = 0; i < share.places.size(); ++i) {
      out.records[share.places[i]] = buffer.records[i];
      out.nnz[share.places[i]] = buffer.nnz[i];
      if (!rewrites(part)) continue;
      scratch->offsets[share.places[i]] = bytes;
      const auto view = kernel::PackedRowView::of(buffer.records[i], own);
      bytes += row_layout().record_bytes(view.nnz, view.wide_count);
    }
  }
  out.bytes.resize_discard(bytes);
  for (size_t part = 0; part < parts_.size(); ++part) {
    if (!rewrites(part)) continue;
    for (const size_t place : scratch->shares[part].places) {
      std::byte* const to = out.bytes.data() + scratch->offsets[place];
      kernel::repack_row(parts_[part]->row_layout(), out.records[place],
                         reader_->part(part).numbers, row_layout(), to, scratch->repack);
      out.records[place] = to;
    }
  }
}

void JoinedRowReader::prefetch(std::span<const int64_t> rows) const noexcept {
  try {
    std::vector<Share> shares;
    divide(rows, shares);
    for (size_t part = 0; part < parts_.size(); ++part) {
      if (!shares[part].rows.empty()) parts_[part]->prefetch(shares[part].rows);
    }
  } catch (const std::exception&) {  // read() throws the error
  }
}

double JoinedRowReader::buffer_bytes_per_row() const {
  double most = 0;
  for (size_t part = 0; part < parts_.size(); ++part) {
    if (parts_[part] == nullptr) continue;
    const double bytes = parts_[part]->buffer_bytes_per_row();
    const auto& own = parts_[part]->row_layout();
    const double wider = static_cast<double>(row_layout().index_bytes + row_layout().value_bytes) /
                         (own.index_bytes + own.value_bytes);
    most = std::max(most, rewrites(part) ? bytes * (1 + std::max(wider, 1.0)) : bytes);
  }
  return most + sizeof(size_t);
}

uint64_t JoinedRowReader::request_bytes() const {
  uint64_t most = 0;
  for (const auto& part : parts_) {
    if (part != nullptr) most = std::max(most, part->request_bytes());
  }
  return most;
}

uint64_t JoinedRowReader::bytes_needed(std::span<const int64_t> rows) const {
  std::vector<Share> shares;
  divide(rows, shares);
  uint64_t bytes = 0;
  for (size_t part = 0; part < parts_.size(); ++part) {
    if (!shares[part].rows.empty()) bytes += parts_[part]->bytes_needed(shares[part].rows);
  }
  return bytes;
}

}  // namespace penstock::format
