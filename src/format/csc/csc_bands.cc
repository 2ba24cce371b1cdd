#include "format/csc/csc_bands.h"

#include <penstock/error.h>

#include <algorithm>
#include <limits>

#include "base/byte_size.h"
#include "base/concat.h"
#include "base/threads/parallel.h"
#include "format/cells/stored_ids.h"
#include "kernel/pack_row.h"

namespace penstock::format {
namespace {

/// Elements of a window at most. Reads are long enough then, and a step takes a tenth of a second.
constexpr uint64_t kMostWindowCells = uint64_t{4} << 20;
/// Ids that a thread narrows at a time.
constexpr uint64_t kIdsAtOnce = uint64_t{1} << 16;

// A cell of a window is in memory up to three times while its chunk is decoded: stored, between two
// filters, decoded. Ids are narrowed to 4 bytes then.
uint64_t id_bytes(const CscArray& array) { return 3 * array.indices().info().cell_bytes + 4; }
uint64_t value_bytes(const CscArray& array) { return 3 * array.data().info().cell_bytes; }

uint64_t window_bytes(const CscArray& array, uint64_t cells) {
  const auto length = [cells](const chunked::Array& stored) {
    // A longer chunk is refused by the budget, and the product must not overflow.
    const uint64_t chunk = std::min(stored.info().chunk_shape[0], uint64_t{1} << 48);
    return std::max<uint64_t>(1, cells / chunk) * chunk;
  };
  return length(array.indices()) * id_bytes(array) + length(array.data()) * value_bytes(array);
}

uint64_t counts_bytes(const CscArray& array) { return array.rows() * sizeof(uint32_t); }

// At least half of the budget is for the bands, so that passes are few; the windows take an eighth,
// or more if chunks are large.
MemoryShares divide(const CscArray& array, uint64_t budget) {
  const uint64_t counts = counts_bytes(array);
  MemoryShares shares;
  const auto set_windows = [&](uint64_t cells) {
    shares.window_cells = std::clamp<uint64_t>(cells, 1, kMostWindowCells);
    shares.window_bytes = window_bytes(array, shares.window_cells);
    return counts + shares.window_bytes <= budget / 2;
  };
  if (!set_windows(budget / 8 / (id_bytes(array) + value_bytes(array))) && !set_windows(1)) {
    throw ResourceExhausted(
        concat("memory_budget is too small to pack a matrix that is stored by genes: ",
               byte_size(budget, Rounding::kDown), ", needed at least ",
               byte_size(CscBands::least_budget(array), Rounding::kUp), " for ", array.rows(),
               " cells and chunks of ", array.indices().info().chunk_shape[0], " and ",
               array.data().info().chunk_shape[0], " elements, in ", array.path()));
  }
  shares.band_bytes = budget - counts - shares.window_bytes;
  return shares;
}

}  // namespace

uint64_t CscBands::least_budget(const CscArray& array) {
  return 2 * (counts_bytes(array) + window_bytes(array, 1));
}

CscBands::CscBands(std::shared_ptr<const CscArray> array, const RowSelection& rows,
                   const RowBandOptions& options)
    : array_(std::move(array)),
      rows_(rows),
      layout_(kernel::make_row_layout(array_->columns(), array_->info().value_type)),
      threads_(thread_count(options.threads)),
      shares_(divide(*array_, options.memory_budget)),
      indices_(array_->indices(), shares_.window_cells, threads_),
      data_(array_->data(), shares_.window_cells, threads_),
      band_(layout_) {}

uint64_t CscBands::nonzeros_at_once() const {
  // Encoded rows, in vectors that may be half empty. They take the place of the windows.
  return std::max<uint64_t>(1, shares_.window_bytes / (2 * (layout_.value_bytes + 4)));
}

PassProgress CscBands::progress() const {
  PassProgress now;
  now.pass = pass_;
  now.passes = passes_;
  const uint64_t elements = array_->elements();
  now.share = reading_ && elements != 0 ? static_cast<double>(next_) / static_cast<double>(elements)
                                        : (pass_ == 0 ? 0 : 1);
  return now;
}

bool CscBands::collect(int64_t row) {
  const auto wanted = static_cast<uint64_t>(row);
  if (!reading_ && band_.has(wanted)) return true;
  if (!reading_) {
    if (!counted_) counts_.assign(array_->rows(), 0);
    if (counted_) begin_band(wanted);
    begin_pass();
  }
  if (next_ < array_->elements()) counted_ ? collect_window() : count_window();
  if (next_ < array_->elements()) return false;
  const bool collected = counted_;
  end_pass();
  if (!collected) passes_ = pass_ + bands_from(wanted);
  return collected;
}

void CscBands::begin_pass() {
  reading_ = true;
  next_ = 0;
  ++pass_;
}

void CscBands::end_pass() {
  reading_ = false;
  indices_.release();
  data_.release();
  ids_ = {};
  if (!counted_) {
    drop_other_rows();
    counted_ = true;
  } else if (!band_.complete()) {
    changed();
  }
}

template <typename Body>
void CscBands::for_parts(uint64_t begin, uint64_t end, Body&& body) const {
  const uint64_t part = (end - begin) / threads_ + 1;
  parallel_for(threads_, threads_, [&](size_t i) {
    const uint64_t first = std::min(end, begin + i * part);
    const uint64_t last = std::min(end, first + part);
    if (first < last) body(first, last);
  });
}

// Reads the window of indices that has the next element, and narrows its ids.
void CscBands::read_ids() {
  if (!indices_.move_to(next_)) return;
  const chunked::ArrayInfo& info = array_->indices().info();
  const uint64_t count = indices_.end() - indices_.begin();
  ids_.resize_discard(count * sizeof(uint32_t));
  parallel_for((count + kIdsAtOnce - 1) / kIdsAtOnce, threads_, [&](size_t i) {
    const uint64_t first = i * kIdsAtOnce;
    const uint64_t size = std::min(kIdsAtOnce, count - first);
    const auto stored =
        indices_.cells().span().subspan(first * info.cell_bytes, size * info.cell_bytes);
    const uint64_t most =
        narrow_stored_ids(info.type, {stored, false}, size, ids_.as<uint32_t>().data() + first);
    if (most < array_->rows()) return;
    const uint64_t element = indices_.begin() + first;
    throw CorruptData(concat("row ids must be in 0 … ", array_->info().row_domain_end - 1,
                             ", but columns ", array_->column_of(element), " … ",
                             array_->column_of(element + size - 1), " have another, in ",
                             info.path));
  });
}

void CscBands::count_window() {
  read_ids();
  const auto ids = std::as_const(ids_).as<uint32_t>();
  for_parts(0, array_->rows(), [&](uint64_t first, uint64_t last) {
    const uint64_t count = last - first;
    for (const uint32_t id : ids) {
      if (id - first >= count) continue;
      if (++counts_[id] == kRowNotChosen) {
        throw Unsupported(
            concat("cell ", id, " has 2^32 non-zeros or more, in ", array_->indices().info().path));
      }
    }
  });
  next_ = indices_.end();
}

void CscBands::drop_other_rows() {
  if (rows_.size() >= array_->rows()) return;
  std::vector<int64_t> chosen;
  for (uint64_t begin = 0; begin < counts_.size(); begin += kIdsAtOnce) {
    const uint64_t end = std::min<uint64_t>(counts_.size(), begin + kIdsAtOnce);
    chosen.clear();
    rows_.copy_range(static_cast<int64_t>(begin), static_cast<int64_t>(end), chosen);
    auto next = chosen.begin();
    for (uint64_t row = begin; row < end; ++row) {
      if (next != chosen.end() && *next == static_cast<int64_t>(row)) {
        ++next;
      } else {
        counts_[row] = kRowNotChosen;
      }
    }
  }
}

// A row that does not fit alone is a band of its own.
uint64_t CscBands::band_end(uint64_t row) const {
  const uint64_t entry = RowBand::entry_bytes(layout_);
  uint64_t bytes = 0;
  uint64_t end = row;
  for (; end < counts_.size(); ++end) {
    const uint64_t entries = counts_[end] == kRowNotChosen ? 0 : counts_[end];
    bytes += RowBand::kRowBytes + entries * entry;
    if (bytes > shares_.band_bytes && end != row) break;
  }
  return end;
}

uint32_t CscBands::bands_from(uint64_t row) const {
  uint32_t bands = 0;
  while (row < counts_.size()) {
    if (counts_[row] == kRowNotChosen) {
      ++row;  // bands begin with a chosen row
    } else {
      row = band_end(row);
      ++bands;
    }
  }
  return bands;
}

void CscBands::begin_band(uint64_t row) {
  band_ = RowBand(layout_);  // so that two bands are never in memory
  passes_ = pass_ + bands_from(row);
  band_ = RowBand(layout_, row, std::span(counts_).subspan(row, band_end(row) - row));
}

void CscBands::collect_window() {
  read_ids();
  data_.move_to(next_);
  const uint64_t begin = next_;
  const uint64_t end = std::min(indices_.end(), data_.end());
  const auto ids = std::as_const(ids_).as<uint32_t>();
  const size_t cell = array_->data().info().cell_bytes;
  for_parts(band_.begin(), band_.end(), [&](uint64_t first, uint64_t last) {
    uint64_t column = array_->column_of(begin);
    for (uint64_t at = begin; at < end; ++column) {
      const uint64_t stop = std::min(end, array_->column_begin(column + 1));
      if (stop == at) continue;
      if (!band_.add(static_cast<uint32_t>(column), ids.subspan(at - indices_.begin(), stop - at),
                     data_.cells().data() + (at - data_.begin()) * cell, first, last)) {
        changed();
      }
      at = stop;
    }
  });
  next_ = end;
}

void CscBands::changed() const {
  throw IoError("the matrix was written to while it was packed: pack it again, in " +
                array_->path());
}

}  // namespace penstock::format
