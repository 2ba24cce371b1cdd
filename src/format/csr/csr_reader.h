#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/threads/lazy.h"
#include "format/cells/column_map.h"
#include "format/csr/csr_array.h"
#include "format/csr/csr_rows.h"
#include "format/matrix_source.h"
#include "io/store.h"

// A stored CSR matrix under a choice of columns (format/matrix_source.h).
//
//   phase 0   a task for each piece: a chunk, or a range of rows where there is no codec
//   phase 1   rows: choice of columns, order, wide values; 128 rows a task
//
// Rows are then ready in the staged elements, and pack() copies them once.

namespace penstock::format {

MatrixSourcePtr make_csr_source(std::shared_ptr<const CsrArray> array);

class CsrReader final : public MatrixReader, public std::enable_shared_from_this<CsrReader> {
 public:
  CsrReader(std::shared_ptr<const CsrArray> array, std::span<const int64_t> columns);

  const kernel::PackedRowLayout& row_layout() const override { return layout_; }
  std::unique_ptr<UnitDecode> start(uint32_t unit, std::vector<int64_t> rows,
                                    std::unique_ptr<UnitDecode> recycled) const override;
  uint64_t in_flight_bytes(uint32_t unit) const override;
  uint64_t fetched_bytes(uint32_t unit) const override;
  uint64_t decode_bytes(uint32_t unit, std::span<const int64_t> rows) const override;
  bool remote() const override;
  double packed_bytes_per_cell() const override { return sample().packed_bytes; }
  uint64_t bytes_needed(const RowSelection& rows) const override;
  uint64_t visit_bytes(uint32_t unit, const RowSelection& rows) const override;
  /// Null unless the matrix has no codecs and lies on this machine.
  RowReaderPtr row_reader(const RowSelection& rows) const override;

  const CsrArray& array() const noexcept { return *array_; }
  std::span<const int64_t> columns() const noexcept { return columns_.ids(); }
  CsrRowContext context() const noexcept { return {columns_, layout_, all_columns_}; }
  uint8_t id_bytes() const noexcept { return id_bytes_; }
  /// Expected bytes of a stored element while its row is decoded, the packed row included.
  double bytes_per_element() const;

 private:
  /// Bytes for each stored element, averages over a few rows spread over the matrix.
  struct Sample {
    double packed_bytes = 0;
    double wide_bytes = 0;
  };
  const Sample& sample() const;
  Sample take_sample() const;
  uint64_t scratch_bytes() const;
  /// From the first row to the last.
  uint64_t elements_of(std::span<const int64_t> rows) const;

  std::shared_ptr<const CsrArray> array_;
  ColumnMap columns_;
  kernel::PackedRowLayout layout_;
  bool all_columns_;
  uint8_t id_bytes_;
  Lazy<Sample> sample_;
};

class CsrDecode final : public UnitDecode {
 public:
  explicit CsrDecode(std::shared_ptr<const CsrReader> reader) { set_reader(std::move(reader)); }
  void set_reader(std::shared_ptr<const CsrReader> reader);

  /// Rows are ascending. Where elements can be addressed they may be of any units.
  void start(std::vector<int64_t> rows);

  void fetch() override;
  size_t phase_count() const override { return 2; }
  size_t task_count(size_t phase) const override;
  void run(size_t phase, size_t task) override;

  uint32_t row_count() const override { return static_cast<uint32_t>(rows_.size()); }
  uint32_t nnz(uint32_t row) const override { return rows_[row].nnz; }
  size_t packed_bytes(uint32_t row) const override;
  uint32_t wide_count(uint32_t row) const override { return rows_[row].wide_count; }
  void pack(uint32_t row, std::byte* destination) const override;
  uint64_t bytes_read() const override { return bytes_read_; }
  uint64_t read_count() const override { return requests_.size(); }
  void take_buffers(UnitDecode& finished) override;
  size_t memory_bytes() const noexcept;

 private:
  /// A stored range to decode: elements [begin, end) of one chunk of one array.
  struct Piece {
    CsrPart part = CsrPart::kIndices;
    uint64_t chunk = 0;
    uint64_t begin = 0, end = 0;
    uint64_t shift = 0;  ///< element e is staged at e - shift
    size_t segment = 0;  ///< of data: index into elements_.segments
    chunked::ChunkPlace place;
    std::span<const std::byte> stored;
  };

  void find_pieces(CsrPart part);
  void place_pieces();
  void decode(const Piece& piece);
  void take_ids(const Piece& piece, uint64_t element, const codec::CellBytes& cells, size_t count);
  void take_values(const Piece& piece, uint64_t element, const codec::CellBytes& cells,
                   size_t count);
  void finish(size_t task);
  [[noreturn]] void bad_id(uint64_t element, size_t count) const;

  std::shared_ptr<const CsrReader> reader_;
  std::vector<CsrRow> rows_;
  /// Elements of consecutive chosen rows.
  struct Run {
    uint64_t begin = 0, end = 0;
    uint64_t shift = 0;  ///< as of a Piece
  };

  uint64_t span_ = 0;  ///< staged elements; behind a codec with holes between the runs
  std::vector<Run> runs_;
  std::vector<Piece> pieces_;
  std::vector<io::ReadRequest> requests_;
  Buffer stored_;
  uint64_t bytes_read_ = 0;
  CsrElements elements_;
  std::vector<std::vector<std::byte>> wide_;  ///< by task of phase 1
};

}  // namespace penstock::format
