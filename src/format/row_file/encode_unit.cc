#include "format/row_file/encode_unit.h"

#include <utility>

namespace penstock::format::pack {

void EncodedRows::append_to(RowFileWriter& writer) const {
  size_t offset = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    writer.append(rows[i], std::span(bytes).subspan(offset, lengths[i]), nnz[i]);
    offset += lengths[i];
  }
}

std::unique_ptr<UnitDecode> DecodePool::take() {
  const MutexLock lock(mutex_);
  if (free_.empty()) return nullptr;
  auto decode = std::move(free_.back());
  free_.pop_back();
  return decode;
}

void DecodePool::give(std::unique_ptr<UnitDecode> decode) {
  const MutexLock lock(mutex_);
  free_.push_back(std::move(decode));
}

EncodedRows encode_unit(const MatrixReader& reader, uint64_t column_count, uint32_t unit,
                        std::vector<int64_t> rows, DecodePool& pool) {
  EncodedRows encoded;
  encoded.rows = rows;
  auto decode = reader.start(unit, std::move(rows), pool.take());
  decode->fetch();
  for (size_t phase = 0; phase < decode->phase_count(); ++phase) {
    for (size_t task = 0; task < decode->task_count(phase); ++task) decode->run(phase, task);
  }
  RowEncoder encoder(reader.row_layout(), column_count);
  std::vector<uint64_t> record;  // aligned
  for (uint32_t row = 0; row < decode->row_count(); ++row) {
    const size_t words = decode->packed_bytes(row) / sizeof(uint64_t) + 1;
    if (record.size() < words) record.resize(words);
    auto* const packed = reinterpret_cast<std::byte*>(record.data());
    decode->pack(row, packed);
    encoded.lengths.push_back(encoder.append(packed, encoded.bytes));
    encoded.nnz.push_back(decode->nnz(row));
  }
  pool.give(std::move(decode));
  return encoded;
}

}  // namespace penstock::format::pack
