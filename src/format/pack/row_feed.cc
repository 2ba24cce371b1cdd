#include "format/pack/row_feed.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/threads/parallel.h"
#include "format/row_file/row_record.h"

namespace penstock::format::pack {
namespace {

std::vector<int64_t> rows_at(const RowSelection& rows, uint64_t first, uint64_t count) {
  std::vector<int64_t> ids;
  rows.copy_positions(first, count, ids);
  return ids;
}

class UnitFeed final : public RowFeed {
 public:
  UnitFeed(MatrixSourcePtr source, const RowSelection& rows, uint64_t column_count,
           unsigned threads)
      : source_(std::move(source)), rows_(rows), column_count_(column_count), threads_(threads) {
    std::vector<int64_t> columns(column_count);
    std::iota(columns.begin(), columns.end(), int64_t{0});
    reader_ = source_->reader(columns);
    const auto units = source_->units();
    for (uint32_t unit = 0; unit < units.size(); ++unit) {
      const uint64_t first = rows_.rank(units[unit].row_begin);
      const uint64_t end = rows_.rank(units[unit].row_end);
      if (first != end) units_.push_back({unit, first, end});
    }
  }

  std::vector<EncodedRows> next(uint64_t first, uint64_t last) override {
    while (units_[unit_].first < first) ++unit_;  // rows of files that were kept
    const size_t begin = unit_;
    while (unit_ < units_.size() && units_[unit_].end <= last &&
           unit_ - begin < size_t{threads_} * 2) {
      ++unit_;
    }
    std::vector<EncodedRows> encoded(unit_ - begin);
    parallel_for(encoded.size(), threads_, [&](size_t i) {
      const UnitPlan& unit = units_[begin + i];
      encoded[i] = encode_unit(*reader_, column_count_, unit.unit,
                               rows_at(rows_, unit.first, unit.end - unit.first), pool_);
    });
    return encoded;
  }

 private:
  struct UnitPlan {
    uint32_t unit = 0;
    uint64_t first = 0, end = 0;  ///< positions of its rows
  };
  MatrixSourcePtr source_;
  std::shared_ptr<const MatrixReader> reader_;
  RowSelection rows_;
  uint64_t column_count_;
  unsigned threads_;
  std::vector<UnitPlan> units_;
  size_t unit_ = 0;
  DecodePool pool_;
};

class BandFeed final : public RowFeed {
 public:
  BandFeed(std::unique_ptr<RowBands> bands, const RowSelection& rows, uint64_t column_count,
           unsigned threads)
      : bands_(std::move(bands)), rows_(rows), column_count_(column_count), threads_(threads) {}

  std::vector<EncodedRows> next(uint64_t first, uint64_t last) override {
    if (!bands_->collect(rows_.at(first))) return {};
    const uint64_t end = std::min(last, rows_.rank(bands_->end()));
    auto parts = cut(first, end);
    parallel_for(parts.size(), threads_, [&](size_t i) { encode(parts[i]); });
    return parts;
  }

  PassProgress passes() const override { return bands_->progress(); }

 private:
  /// Rows that are encoded at a time, in parts for the threads.
  std::vector<EncodedRows> cut(uint64_t first, uint64_t end) const {
    const uint64_t most = bands_->nonzeros_at_once();
    const uint64_t part_most = most / (uint64_t{threads_} * 2) + 1;
    std::vector<EncodedRows> parts(1);
    uint64_t all = 0, of_part = 0;
    for (uint64_t at = first; at < end; at += kRowsAtOnce) {
      for (const int64_t row : rows_at(rows_, at, std::min(kRowsAtOnce, end - at))) {
        const uint64_t size = bands_->nnz(row) + kRowOverhead;
        if (all != 0 && all + size > most) return parts;
        if (of_part != 0 && of_part + size > part_most) {
          parts.emplace_back();
          of_part = 0;
        }
        parts.back().rows.push_back(row);
        all += size;
        of_part += size;
      }
    }
    return parts;
  }

  void encode(EncodedRows& part) const {
    RowEncoder encoder(bands_->row_layout(), column_count_);
    std::vector<uint64_t> record;  // aligned
    for (const int64_t row : part.rows) {
      bands_->pack(row, record);
      part.lengths.push_back(
          encoder.append(reinterpret_cast<const std::byte*>(record.data()), part.bytes));
      part.nnz.push_back(bands_->nnz(row));
    }
  }

  static constexpr uint64_t kRowsAtOnce = 1024;
  /// An empty row takes as much as a few non-zeros.
  static constexpr uint64_t kRowOverhead = 4;

  std::unique_ptr<RowBands> bands_;
  RowSelection rows_;
  uint64_t column_count_;
  unsigned threads_;
};

}  // namespace

std::unique_ptr<RowFeed> make_row_feed(MatrixSourcePtr source, const RowSelection& rows,
                                       uint64_t column_count, const RowBandOptions& options) {
  const unsigned threads = thread_count(options.threads);
  if (auto bands = source->row_bands(rows, options)) {
    return std::make_unique<BandFeed>(std::move(bands), rows, column_count, threads);
  }
  return std::make_unique<UnitFeed>(std::move(source), rows, column_count, threads);
}

}  // namespace penstock::format::pack
