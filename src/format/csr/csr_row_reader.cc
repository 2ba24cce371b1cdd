#include "format/csr/csr_row_reader.h"

#include <penstock/error.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/concat.h"

namespace penstock::format {
namespace {

/// Entries of a row in the lists below.
constexpr double kRowBytes = sizeof(CsrRow) + 3 * sizeof(int64_t);

struct Scratch final : RowBuffer::Scratch {
  explicit Scratch(std::shared_ptr<const CsrReader> reader) : decode(std::move(reader)) {}
  size_t memory_bytes() const noexcept override { return decode.memory_bytes(); }
  CsrDecode decode;
};

}  // namespace

CsrRowReader::CsrRowReader(std::shared_ptr<const CsrReader> reader)
    : reader_(std::move(reader)),
      elements_per_row_(
          static_cast<double>(reader_->array().offsets().element_count()) /
          static_cast<double>(std::max<int64_t>(1, reader_->array().info().row_domain_end))) {}

void CsrRowReader::read(std::span<const int64_t> rows, RowBuffer& out) const {
  const int64_t end = reader_->array().info().row_domain_end;
  std::vector<int64_t> sorted(rows.begin(), rows.end());
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  if (!sorted.empty() && (sorted.front() < 0 || sorted.back() >= end)) {
    throw InvalidArgument(concat("rows must be in 0 … ", end - 1, ", got ",
                                 sorted.front() < 0 ? sorted.front() : sorted.back(), ", in ",
                                 reader_->array().path()));
  }
  if (out.scratch == nullptr) out.scratch = std::make_unique<Scratch>(reader_);
  CsrDecode& decode = static_cast<Scratch&>(*out.scratch).decode;
  decode.start(sorted);
  decode.fetch();
  for (size_t phase = 0; phase < decode.phase_count(); ++phase) {
    for (size_t task = 0; task < decode.task_count(phase); ++task) decode.run(phase, task);
  }
  out.bytes_read = decode.bytes_read();
  out.read_count = decode.read_count();
  out.cached_bytes = 0;
  std::vector<size_t> places(sorted.size());
  size_t bytes = 0;
  for (uint32_t i = 0; i < sorted.size(); ++i) {
    places[i] = bytes;
    bytes += decode.packed_bytes(i);
  }
  out.bytes.resize_discard(bytes);
  for (uint32_t i = 0; i < sorted.size(); ++i) decode.pack(i, out.bytes.data() + places[i]);
  out.records.resize(rows.size());
  out.nnz.resize(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto at = static_cast<uint32_t>(std::lower_bound(sorted.begin(), sorted.end(), rows[i]) -
                                          sorted.begin());
    out.records[i] = out.bytes.data() + places[at];
    out.nnz[i] = decode.nnz(at);
  }
}

double CsrRowReader::buffer_bytes_per_row() const {
  return kRowBytes + elements_per_row_ * reader_->bytes_per_element();
}

double CsrRowReader::packed_bytes_per_row() const {
  return elements_per_row_ * reader_->packed_bytes_per_cell();
}

uint64_t CsrRowReader::bytes_needed(std::span<const int64_t> rows) const {
  const RowOffsets& offsets = reader_->array().offsets();
  uint64_t elements = 0;
  for (const int64_t row : rows) {
    elements += offsets.end(static_cast<uint64_t>(row)) - offsets.begin(static_cast<uint64_t>(row));
  }
  uint64_t bytes = 0;
  for (const CsrPart part : {CsrPart::kIndices, CsrPart::kData}) {
    bytes += elements * reader_->array().array(part).info().cell_bytes;
  }
  return bytes;
}

}  // namespace penstock::format
