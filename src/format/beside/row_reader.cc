#include "format/beside/row_reader.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace penstock::format {

struct BesideRowReader::Scratch final : RowBuffer::Scratch {
  std::vector<Share> shares;
  std::vector<RowBuffer> buffers;                ///< of each part
  std::vector<kernel::RowPart> records;          ///< by place, then by part
  std::vector<uint32_t> record_counts;           ///< by place
  std::vector<kernel::PackedRowHeader> headers;  ///< by place, of the merged rows

  size_t memory_bytes() const noexcept override {
    size_t bytes = records.capacity() * sizeof(kernel::RowPart);
    for (const RowBuffer& buffer : buffers) bytes += buffer.memory_bytes();
    return bytes;
  }
};

void BesideRowReader::choose(std::span<const int64_t> rows, size_t part, Share& share) const {
  const int64_t end = reader_->parts()[part].row_end;
  share.rows.clear();
  share.places.clear();
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] >= end) continue;
    share.rows.push_back(rows[i]);
    share.places.push_back(i);
  }
}

void BesideRowReader::read(std::span<const int64_t> rows, RowBuffer& out) const {
  auto* scratch = dynamic_cast<Scratch*>(out.scratch.get());
  if (scratch == nullptr) {
    auto made = std::make_unique<Scratch>();
    scratch = made.get();
    out.scratch = std::move(made);
  }
  const size_t parts = readers_.size();
  scratch->shares.resize(parts);
  scratch->buffers.resize(parts);
  scratch->records.resize(rows.size() * parts);
  scratch->record_counts.assign(rows.size(), 0);
  scratch->headers.assign(rows.size(), {});
  out.records.resize(rows.size());
  out.nnz.resize(rows.size());
  out.bytes_read = out.cached_bytes = out.read_count = 0;
  for (size_t part = 0; part < parts; ++part) {
    Share& share = scratch->shares[part];
    choose(rows, part, share);
    if (share.rows.empty()) continue;
    RowBuffer& buffer = scratch->buffers[part];
    readers_[part]->read(share.rows, buffer);
    out.bytes_read += buffer.bytes_read;
    out.cached_bytes += buffer.cached_bytes;
    out.read_count += buffer.read_count;
    const auto& layout = readers_[part]->row_layout();
    const uint32_t first_column = reader_->parts()[part].first_column;
    for (size_t i = 0; i < share.places.size(); ++i) {
      const size_t place = share.places[i];
      if (buffer.nnz[i] == 0) continue;
      scratch->headers[place] =
          kernel::merged_header(scratch->headers[place], kernel::header_of(buffer.records[i]));
      scratch->records[place * parts + scratch->record_counts[place]++] = {buffer.records[i],
                                                                           layout, first_column};
    }
  }
  size_t bytes = 0;
  for (const kernel::PackedRowHeader& each : scratch->headers) {
    bytes += row_layout().record_bytes(each.nnz, each.wide_count);
  }
  out.bytes.resize_discard(bytes);
  std::byte* to = out.bytes.data();
  for (size_t i = 0; i < rows.size(); ++i) {
    const kernel::PackedRowHeader& merged = scratch->headers[i];
    kernel::merge_rows(std::span(scratch->records).subspan(i * parts, scratch->record_counts[i]),
                       row_layout(), to);
    out.records[i] = to;
    out.nnz[i] = merged.nnz;
    to += row_layout().record_bytes(merged.nnz, merged.wide_count);
  }
}

void BesideRowReader::prefetch(std::span<const int64_t> rows) const noexcept {
  try {
    Share share;
    for (size_t part = 0; part < readers_.size(); ++part) {
      choose(rows, part, share);
      if (!share.rows.empty()) readers_[part]->prefetch(share.rows);
    }
  } catch (const std::exception&) {  // read() throws the error
  }
}

double BesideRowReader::buffer_bytes_per_row() const {
  double bytes = packed_bytes_per_row();
  for (const RowReaderPtr& reader : readers_) {
    bytes += reader->buffer_bytes_per_row() + sizeof(kernel::RowPart) + 2 * sizeof(int64_t);
  }
  return bytes;
}

double BesideRowReader::packed_bytes_per_row() const {
  double bytes = 0;
  for (const RowReaderPtr& reader : readers_) {
    bytes += reader->packed_bytes_per_row() *
             kernel::most_merged_growth(reader->row_layout(), row_layout());
  }
  return bytes;
}

uint64_t BesideRowReader::request_bytes() const {
  uint64_t most = 0;
  for (const RowReaderPtr& reader : readers_) most = std::max(most, reader->request_bytes());
  return most;
}

uint64_t BesideRowReader::bytes_needed(std::span<const int64_t> rows) const {
  Share share;
  uint64_t bytes = 0;
  for (size_t part = 0; part < readers_.size(); ++part) {
    choose(rows, part, share);
    if (!share.rows.empty()) bytes += readers_[part]->bytes_needed(share.rows);
  }
  return bytes;
}

}  // namespace penstock::format
