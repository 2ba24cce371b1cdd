#include "format/pack/row_feed.h"

#include <penstock/error.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/byte_size.h"
#include "base/concat.h"
#include "base/threads/parallel.h"
#include "format/row_file/row_record.h"

namespace penstock::format::pack {
namespace {

/// From here on reading in order is faster, on one thread and with byte planes inflated again.
constexpr double kMostDecodes = 4;

std::vector<int64_t> rows_at(const RowSelection& rows, uint64_t first, uint64_t count) {
  std::vector<int64_t> ids;
  rows.copy_positions(first, count, ids);
  return ids;
}

/// The units of a source that have chosen rows.
struct ChosenUnits {
  struct Unit {
    uint32_t number = 0;
    uint64_t first = 0, end = 0;  ///< positions of its rows
    uint64_t bytes = 0;           ///< of memory while it is encoded; see measure()
  };

  ChosenUnits(MatrixSourcePtr from, const RowSelection& rows, uint64_t column_count)
      : source(std::move(from)) {
    std::vector<int64_t> columns(column_count);
    std::iota(columns.begin(), columns.end(), int64_t{0});
    reader = source->reader(columns);
    const auto all = source->units();
    for (uint32_t number = 0; number < all.size(); ++number) {
      const uint64_t first = rows.rank(all[number].row_begin);
      const uint64_t end = rows.rank(all[number].row_end);
      if (first != end) units.push_back({number, first, end});
    }
  }

  /// Learns what units take in memory, from a sample of the rows. Returns the largest unit, or
  /// null.
  const Unit* measure() {
    const Unit* largest = nullptr;
    for (Unit& unit : units) {
      const auto cells = static_cast<double>(source->units()[unit.number].cell_bound);
      const double packed = cells * reader->packed_bytes_per_cell_of(unit.number);
      unit.bytes = reader->in_flight_bytes(unit.number) + static_cast<uint64_t>(packed);
      if (largest == nullptr || unit.bytes > largest->bytes) largest = &unit;
    }
    return largest;
  }

  /// How often each stored byte is decoded, units being decoded one by one.
  double decodes() const {
    double bytes = 0;
    for (const Unit& unit : units) {
      bytes += static_cast<double>(source->units()[unit.number].stored_bytes);
    }
    return bytes / static_cast<double>(std::max<uint64_t>(source->info().stored_bytes, 1));
  }

  MatrixSourcePtr source;
  std::shared_ptr<const MatrixReader> reader;
  std::vector<Unit> units;
};

/// As many units at a time as fit in the budget, on several threads.
class UnitFeed final : public RowFeed {
 public:
  UnitFeed(ChosenUnits chosen, const RowSelection& rows, uint64_t column_count,
           uint64_t memory_budget, unsigned threads)
      : chosen_(std::move(chosen)),
        rows_(rows),
        column_count_(column_count),
        memory_budget_(memory_budget),
        threads_(threads) {}

  std::vector<EncodedRows> next(uint64_t first, uint64_t last) override {
    const auto& units = chosen_.units;
    while (units[unit_].first < first) ++unit_;  // rows of files that were kept
    const size_t begin = unit_;
    uint64_t bytes = 0;
    while (unit_ < units.size() && units[unit_].end <= last &&
           unit_ - begin < size_t{threads_} * 2) {
      bytes += units[unit_].bytes;
      if (unit_ != begin && bytes > memory_budget_) break;
      ++unit_;
    }
    std::vector<EncodedRows> encoded(unit_ - begin);
    parallel_for(encoded.size(), threads_, [&](size_t i) {
      const ChosenUnits::Unit& unit = units[begin + i];
      encoded[i] = encode_unit(*chosen_.reader, column_count_, unit.number,
                               rows_at(rows_, unit.first, unit.end - unit.first), pool_);
    });
    return encoded;
  }

 private:
  const ChosenUnits chosen_;
  const RowSelection rows_;
  const uint64_t column_count_, memory_budget_;
  const unsigned threads_;
  size_t unit_ = 0;
  DecodePool pool_;
};

/// Rows of MatrixSource::in_order(), as many of a unit as fit in the budget, and one at least.
class OrderedFeed final : public RowFeed {
 public:
  OrderedFeed(ChosenUnits chosen, const RowSelection& rows, uint64_t column_count,
              uint64_t memory_budget)
      : chosen_(std::move(chosen)),
        rows_(rows),
        column_count_(column_count),
        memory_budget_(memory_budget) {}

  std::vector<EncodedRows> next(uint64_t first, uint64_t last) override {
    while (chosen_.units[unit_].end <= first) ++unit_;
    const ChosenUnits::Unit& unit = chosen_.units[unit_];
    // A file may end within a unit.
    auto rows = rows_at(rows_, first, std::min(last, unit.end) - first);
    while (rows.size() > 1 && chosen_.reader->decode_bytes(unit.number, rows) > memory_budget_) {
      rows.resize(rows.size() / 2);
    }
    std::vector<EncodedRows> encoded;
    encoded.push_back(
        encode_unit(*chosen_.reader, column_count_, unit.number, std::move(rows), pool_));
    return encoded;
  }

 private:
  const ChosenUnits chosen_;
  const RowSelection rows_;
  const uint64_t column_count_, memory_budget_;
  size_t unit_ = 0;
  DecodePool pool_;
};

std::unique_ptr<RowFeed> make_unit_feed(MatrixSourcePtr source, const RowSelection& rows,
                                        uint64_t column_count, const RowBandOptions& options,
                                        unsigned threads) {
  const uint64_t budget = options.memory_budget;
  ChosenUnits chosen(std::move(source), rows, column_count);
  const auto ordered_feed = [&]() -> std::unique_ptr<RowFeed> {
    auto in_order = chosen.source->in_order();
    if (!in_order) return nullptr;
    return std::make_unique<OrderedFeed>(ChosenUnits(std::move(in_order), rows, column_count), rows,
                                         column_count, budget);
  };
  if (chosen.decodes() > kMostDecodes) {
    if (auto feed = ordered_feed()) return feed;
  }
  const ChosenUnits::Unit* const largest = chosen.measure();
  if (largest == nullptr || largest->bytes <= budget) {
    return std::make_unique<UnitFeed>(std::move(chosen), rows, column_count, budget, threads);
  }
  if (auto feed = ordered_feed()) return feed;
  throw ResourceExhausted(
      concat("memory_budget is too small to pack: ", byte_size(budget, Rounding::kDown),
             ", needed at least ", byte_size(largest->bytes, Rounding::kUp), " to decode ",
             largest->end - largest->first, " cells from ", rows.at(largest->first),
             " on, stored as ", chosen.source->info().layout));
}

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
  return make_unit_feed(std::move(source), rows, column_count, options, threads);
}

}  // namespace penstock::format::pack
