#include "format/soma/x/reader.h"

#include <penstock/error.h>

#include <algorithm>

#include "base/concat.h"
#include "format/soma/x/merged_cells.h"
#include "io/range_coalescing.h"
#include "kernel/pack_row.h"

namespace penstock::format::soma {
namespace {

constexpr uint64_t kSampleTiles = 12;
/// A tile's stage with the slack of its three arrays, and the place of its bytes.
constexpr uint64_t kTileBytes = sizeof(XTileStage) + 3 * kStageSlack + sizeof(XTileBytes) + 64;
/// A row's summary, its id, and its place in the map.
constexpr uint64_t kRowBytes = sizeof(XRowSummary) + sizeof(int64_t) + sizeof(uint32_t);

/// All rows between the bounds of one tile.
std::vector<int64_t> rows_between(int64_t first, int64_t last) {
  std::vector<int64_t> rows(static_cast<size_t>(last - first + 1));
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = first + static_cast<int64_t>(i);
  return rows;
}

}  // namespace

XReader::XReader(std::shared_ptr<const XArray> array, std::span<const int64_t> columns)
    : array_(std::move(array)),
      columns_(columns, array_->info().column_domain_end),
      layout_(kernel::make_row_layout(columns.size(), array_->info().value_type)),
      context_{*array_, columns_, layout_},
      unit_bytes_(array_->units().size()) {}

bool XReader::has_chosen_columns(XTileId id) const {
  const XTileBounds bounds = array_->fragments()[id.fragment].bounds(id.tile);
  return columns_.touches(bounds.column_first, bounds.column_last);
}

std::unique_ptr<UnitDecode> XReader::start(uint32_t unit, std::vector<int64_t> rows,
                                           std::unique_ptr<UnitDecode> recycled) const {
  if (unit >= array_->units().size()) {
    throw InvalidArgument(concat("no fetch unit ", unit));
  }
  const plan::FetchUnit& place = array_->units()[unit];
  if (!rows.empty() && (rows.front() < place.row_begin || rows.back() >= place.row_end)) {
    throw InvalidArgument(
        concat("rows ", rows.front(), " … ", rows.back(), " are not all in fetch unit ", unit));
  }
  std::unique_ptr<XUnitDecode> decode;
  if (auto* own = dynamic_cast<XUnitDecode*>(recycled.get());
      own != nullptr && own->reader() == this) {
    recycled.release();
    decode.reset(own);
  } else {
    decode = std::make_unique<XUnitDecode>(shared_from_this(), context_, scratch_pool_);
  }
  XRowMap map;
  map.assign(rows);
  std::vector<XTileId> tiles;
  if (!rows.empty()) tiles = array_->tiles_of(rows.front(), rows.back() + 1);
  std::erase_if(tiles, [&](XTileId id) {
    const XTileBounds bounds = array_->fragments()[id.fragment].bounds(id.tile);
    return !map.touches(bounds.row_first, bounds.row_last) ||
           !columns_.touches(bounds.column_first, bounds.column_last);
  });
  decode->start(std::move(tiles), std::move(rows));
  return decode;
}

uint64_t XReader::in_flight_bytes(uint32_t unit) const {
  std::atomic<uint64_t>& known = unit_bytes_.at(unit);
  uint64_t bytes = known.load(std::memory_order_relaxed);
  if (bytes == 0) {
    bytes = unit_bytes(unit);
    known.store(bytes, std::memory_order_relaxed);
  }
  return bytes;
}

// The scratch of a task grows with threads, not with the unit, but is counted once for each unit:
// the split of the budget decides the order of rows, which must not depend on threads.
uint64_t XReader::unit_bytes(uint32_t unit) const {
  const plan::FetchUnit& place = array_->units().at(unit);
  const auto rows =
      static_cast<uint64_t>(std::min<int64_t>(place.row_end - place.row_begin, int64_t{1} << 20));
  uint64_t stored = 0;
  uint64_t tiles = 0;
  uint64_t scratch = 0;
  XMergedCells cells(*array_, place.row_begin, place.row_end);
  for (const XTileId id : array_->tiles_of(place.row_begin, place.row_end)) {
    if (!has_chosen_columns(id)) continue;
    stored += array_->fragments()[id.fragment].stored_bytes(id.tile);
    scratch = std::max(scratch, scratch_bytes(*array_, id));
    cells.add(id);
    ++tiles;
  }
  const bool repeating = sample().repeating;
  const auto merged = static_cast<double>(cells.merged(repeating)) * sample().kept_cells;
  const auto timed = static_cast<double>(cells.timed(repeating)) * sample().kept_cells;
  // Merged rows are written again, with room for all values to be wide. Cells that timestamps or
  // deletes decide also carry these.
  const double bytes = static_cast<double>(cells.all()) * sample().staged_bytes +
                       merged * (layout_.index_bytes + 1.0 + layout_.value_bytes) +
                       timed * (sizeof(uint64_t) + 1.0);
  return stored + scratch + static_cast<uint64_t>(bytes) + tiles * kTileBytes + rows * kRowBytes;
}

uint64_t XReader::fetched_bytes(uint32_t unit) const {
  const plan::FetchUnit& place = array_->units().at(unit);
  uint64_t stored = 0;
  for (const XTileId id : array_->tiles_of(place.row_begin, place.row_end)) {
    if (has_chosen_columns(id)) stored += array_->fragments()[id.fragment].stored_bytes(id.tile);
  }
  // Gaps that are read over, and the unit's own memory before its tiles are staged.
  return stored + stored / 16 + (uint64_t{64} << 10) +
         static_cast<uint64_t>(std::min<int64_t>(place.row_end - place.row_begin, 1 << 20)) *
             kRowBytes;
}

bool XReader::remote() const { return array_->store().traits().remote; }

double XReader::packed_bytes_per_cell() const { return sample().packed_bytes; }

const XReader::Sample& XReader::sample() const {
  return sample_.get([&] { return take_sample(); });
}

XTileBytes XReader::read_tile(XTileId id, std::vector<Buffer>& buffers) const {
  const XFragment& fragment = array_->fragments()[id.fragment];
  XTileBytes bytes;
  buffers.clear();
  for (size_t part = 0; part < kXPartCount; ++part) {
    if (!fragment.reads(XPart(part))) continue;
    const io::ByteRange range = fragment.range(XPart(part), id.tile);
    buffers.emplace_back(range.length);
    array_->store().read(fragment.path(XPart(part)), range.offset, buffers.back().span());
    bytes.parts[part] = std::as_const(buffers.back()).span();
  }
  return bytes;
}

void XReader::will_read(std::span<const XTileId> tiles) const {
  std::vector<io::ObjectRange> ranges;
  for (const XTileId id : tiles) {
    if (!has_chosen_columns(id)) continue;
    const XFragment& fragment = array_->fragments()[id.fragment];
    for (size_t part = 0; part < kXPartCount; ++part) {
      if (!fragment.reads(XPart(part))) continue;
      ranges.push_back({fragment.path(XPart(part)), fragment.range(XPart(part), id.tile)});
    }
  }
  array_->store().will_read(ranges);
}

XReader::Sample XReader::take_sample() const {
  std::vector<XTileId> all;
  const uint64_t count = array_->info().tile_count;
  const uint64_t step = std::max<uint64_t>(1, count / kSampleTiles);
  uint64_t number = 0;
  for (uint32_t f = 0; f < array_->fragments().size(); ++f) {
    const uint64_t tiles = array_->fragments()[f].metadata->tile_count();
    for (uint64_t next = (number + step - 1) / step * step; next < number + tiles; next += step) {
      all.push_back({f, next - number});
    }
    number += tiles;
  }
  if (array_->store().traits().remote) will_read(all);
  double stored = 0, kept = 0, wide = 0, runs = 0;
  bool repeating = false;
  auto scratch = scratch_pool_.take();
  XTileStage stage;
  std::vector<Buffer> buffers;
  for (const XTileId id : all) {
    const XFragment& fragment = array_->fragments()[id.fragment];
    stored += static_cast<double>(fragment.cells(id.tile));
    if (!has_chosen_columns(id)) continue;
    const XTileBounds bounds = fragment.bounds(id.tile);
    const auto rows = rows_between(
        bounds.row_first,
        bounds.row_first + std::min<int64_t>(bounds.row_last - bounds.row_first, 0xFFFFF));
    XRowMap map;
    map.assign(rows);
    const auto decode = can_decode_runs(*array_, id) ? decode_tile_runs : decode_tile_general;
    decode(context_, id, read_tile(id, buffers), map, *scratch, stage);
    kept += stage.cells;
    wide += stage.raw ? stage.cells : stage.wide_count;
    runs += static_cast<double>(stage.runs.size());
    repeating |= stage.wants_timestamps;
  }
  scratch_pool_.give(std::move(scratch));
  const double value_bytes = layout_.value_bytes;
  const double coded = kept + wide * value_bytes;
  const double values = std::min(coded, kept * value_bytes);
  if (stored == 0) return {layout_.index_bytes + 1.0, layout_.index_bytes + 1.0, 1.0, false};
  return {
      .packed_bytes = (kept * layout_.index_bytes + values) / stored,
      .staged_bytes =
          (kept * layout_.index_bytes + coded + runs * (sizeof(XRun) + sizeof(XRowRun))) / stored,
      .kept_cells = kept / stored,
      .repeating = repeating};
}

uint64_t XReader::bytes_needed(const RowSelection& rows) const {
  uint64_t bytes = 0;
  // Neighbouring tiles often have the same rows.
  XTileBounds last;
  bool touched = false;
  bool known = false;
  for (uint32_t f = 0; f < array_->fragments().size(); ++f) {
    const XFragment& fragment = array_->fragments()[f];
    for (uint64_t tile = 0; tile < fragment.metadata->tile_count(); ++tile) {
      const XTileBounds bounds = fragment.bounds(tile);
      if (!columns_.touches(bounds.column_first, bounds.column_last)) continue;
      if (!known || bounds.row_first != last.row_first || bounds.row_last != last.row_last) {
        touched = rows.intersects(bounds.row_first, bounds.row_last + 1);
        last = bounds;
        known = true;
      }
      if (touched) bytes += fragment.stored_bytes(tile);
    }
  }
  return bytes;
}

uint64_t XReader::visit_bytes(uint32_t unit, const RowSelection& rows) const {
  const plan::FetchUnit& place = array_->units().at(unit);
  std::vector<XTileId> tiles = array_->tiles_of(place.row_begin, place.row_end);
  std::erase_if(tiles, [&](XTileId id) {
    const XTileBounds bounds = array_->fragments()[id.fragment].bounds(id.tile);
    return !has_chosen_columns(id) ||
           !rows.intersects(std::max(bounds.row_first, place.row_begin),
                            std::min(bounds.row_last + 1, place.row_end));
  });
  // The reads of XUnitDecode::plan_part.
  uint64_t bytes = 0;
  std::vector<io::ByteRange> ranges;
  for (size_t begin = 0, end = 0; begin < tiles.size(); begin = end) {
    const XFragment& fragment = array_->fragments()[tiles[begin].fragment];
    while (end < tiles.size() && tiles[end].fragment == tiles[begin].fragment) ++end;
    for (size_t part = 0; part < kXPartCount; ++part) {
      if (!fragment.reads(XPart(part))) continue;
      ranges.clear();
      for (size_t i = begin; i < end; ++i) {
        ranges.push_back(fragment.range(XPart(part), tiles[i].tile));
      }
      const auto plan = io::coalesce(ranges, array_->store().traits().coalescing);
      for (const io::ByteRange& read : plan.reads) bytes += read.length;
    }
  }
  return bytes;
}

}  // namespace penstock::format::soma
