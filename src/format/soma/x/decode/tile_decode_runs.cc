#include <penstock/error.h>

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/concat.h"
#include "format/cells/cell_kernels.h"
#include "format/cells/narrow_ids.h"
#include "format/soma/x/decode/tile_decode.h"

namespace penstock::format::soma {
namespace {

/// Values of a tile escape together (normalized layers) or hardly ever (counts).
constexpr size_t kRawShare = 2;  // raw if more than half of the first chunk escapes

class RunDecode {
 public:
  RunDecode(const XDecodeContext& context, XTileId id, const XTileBytes& bytes, const XRowMap& rows,
            XTileScratch& scratch, XTileStage& stage)
      : context_(context),
        fragment_(context.array.fragments()[id.fragment]),
        version_(fragment_.metadata->footer().format_version),
        bounds_(fragment_.bounds(id.tile)),
        cells_(fragment_.cells(id.tile)),
        bytes_(bytes),
        rows_(rows),
        scratch_(scratch),
        stage_(stage),
        value_bytes_(context.layout.value_bytes) {}

  void run() {
    read_rows();
    if (stage_.runs.empty()) return;
    if (context_.layout.index_bytes == 2) {
      read_cells<uint16_t>();
    } else {
      read_cells<uint32_t>();
    }
  }

 private:
  XTileCells cells_of(XPart part) {
    return {fragment_.field(part), version_, bytes_[part], cells_, scratch_.cells};
  }

  // Runs of chosen rows go to the stage, still counted in cells of the tile.
  void read_rows() {
    XTileCells chunks = cells_of(XPart::kRows);
    uint64_t begin = 0;
    int64_t previous = -1;  // no row has it
    uint32_t row = XRowMap::kNotChosen;
    while (chunks.next()) {
      if (chunks.count() == 0) continue;
      scratch_.runs.clear();
      if (!chunks.decode_runs(scratch_.runs)) find_runs(chunks);
      for (const codec::CellRun& run : scratch_.runs) {
        const auto id = static_cast<int64_t>(run.value);
        const auto count = static_cast<uint32_t>(run.count);
        const bool goes_on = id == previous && begin != 0;
        if (!goes_on) {
          if (id < bounds_.row_first || id > bounds_.row_last) bad_row(id);
          row = rows_.find(id);
          previous = id;
        }
        if (row != XRowMap::kNotChosen) {
          if (goes_on) {
            stage_.runs.back().count += count;
          } else {
            stage_.runs.push_back(
                {.row = row, .begin = static_cast<uint32_t>(begin), .count = count});
          }
          stage_.cells += count;
        }
        begin += run.count;
      }
    }
  }

  void find_runs(XTileCells& chunks) {
    const size_t count = chunks.count();
    const auto plain = chunks.plain(chunks.decode());
    const auto* ids = reinterpret_cast<const int64_t*>(plain.data());
    scratch_.run_begins.resize(count + 1);
    uint32_t* const begins = scratch_.run_begins.data();
    const size_t found = find_row_changes(ids, count, ~ids[0], 0, begins, context_.path);
    begins[found] = static_cast<uint32_t>(count);
    for (size_t i = 0; i < found; ++i) {
      scratch_.runs.push_back({static_cast<uint64_t>(ids[begins[i]]), begins[i + 1] - begins[i]});
    }
  }

  template <typename Index>
  void read_cells() {
    const size_t room = cells_ + kStageSlack;
    stage_.indices.resize_discard(room * sizeof(Index));
    int64_t shift = 0;
    if (context_.columns.covers(bounds_.column_first, bounds_.column_last, &shift)) {
      const bool neighbours = are_neighbours();
      Buffer& target = neighbours ? stage_.indices : scratch_.indices;
      target.resize_discard(room * sizeof(Index));
      read_shifted(shift, target.as<Index>().data());
      read_values(neighbours);
      if (neighbours) {
        place_escapes();
      } else {
        keep_rows<Index>();
      }
    } else if (bounds_.column_last <= 0xFFFF) {
      choose_columns<uint16_t, Index>();
    } else {
      choose_columns<uint32_t, Index>();
    }
    check_order<Index>();
  }

  /// Whether no other row's cells lie between those of chosen rows. They then stay at their place
  /// in the tile.
  bool are_neighbours() const {
    const XRun& last = stage_.runs.back();
    return last.begin + last.count - stage_.runs.front().begin == stage_.cells;
  }

  bool overlaps_run(uint64_t begin, uint64_t count, size_t& run) const {
    const auto& runs = stage_.runs;
    while (run < runs.size() && uint64_t{runs[run].begin} + runs[run].count <= begin) ++run;
    return run < runs.size() && runs[run].begin < begin + count;
  }

  template <typename Id>
  void read_ids(uint32_t shift, Id* out) {
    IdRange range;
    size_t run = 0;
    XTileCells chunks = cells_of(XPart::kColumns);
    while (chunks.next()) {
      if (!overlaps_run(chunks.begin(), chunks.count(), run)) continue;
      narrow_ids(chunks.decode(), chunks.count(), shift, out + chunks.begin(), range,
                 context_.path);
    }
    if (!range.within(bounds_.column_first, bounds_.column_last)) bad_columns(range);
  }

  template <typename Index>
  void read_shifted(int64_t shift, Index* out) {
    if (sizeof(Index) == 4 || bounds_.column_last <= 0xFFFF) {
      read_ids(static_cast<uint32_t>(shift), out);
      return;
    }
    scratch_.values.resize_discard(cells_ * sizeof(uint32_t));
    uint32_t* const wide = scratch_.values.as<uint32_t>().data();
    read_ids(static_cast<uint32_t>(shift), wide);
    for (size_t i = 0; i < cells_; ++i) out[i] = static_cast<Index>(wide[i]);
  }

  // Codes of the wanted cells at their place in the tile, or, when the tile is raw, their values.
  void read_values(bool into_stage) {
    Buffer& codes = into_stage ? stage_.codes : scratch_.codes;
    Buffer& wide = into_stage ? stage_.wide : scratch_.values;
    scratch_.escapes.clear();
    codes.resize_discard(cells_ + kStageSlack);
    const DataType type = context_.layout.value_type;
    bool first = true;
    size_t run = 0;
    XTileCells chunks = cells_of(XPart::kValues);
    while (chunks.next()) {
      if (!overlaps_run(chunks.begin(), chunks.count(), run)) continue;
      codec::CellBytes cells = chunks.decode();
      if (cells.shuffled && !codes_from_planes(type)) cells = {chunks.plain(cells), false};
      if (!stage_.raw) {
        const size_t most = first && value_bytes_ > 1 ? chunks.count() / kRawShare : chunks.count();
        stage_.raw = !code_values(
            type, cells, chunks.count(), static_cast<uint32_t>(chunks.begin()), most,
            reinterpret_cast<uint8_t*>(codes.data()) + chunks.begin(), scratch_.escapes);
        if (stage_.raw) wide.resize_discard((cells_ + kStageSlack) * value_bytes_);
        first = false;
      }
      if (stage_.raw) {
        const auto plain = chunks.plain(cells);
        std::memcpy(wide.data() + chunks.begin() * value_bytes_, plain.data(), plain.size());
      }
    }
  }

  /// Sets the escapes of runs whose cells stayed at their place in the tile.
  void place_escapes() {
    if (stage_.raw) {
      for (XRun& run : stage_.runs) {
        run.wide_begin = run.begin;
        run.wide_count = run.count;
      }
      return;
    }
    const auto& escapes = scratch_.escapes.cells;
    const auto first = std::lower_bound(escapes.begin(), escapes.end(), stage_.runs.front().begin);
    const auto before = static_cast<size_t>(first - escapes.begin());
    size_t escape = before;
    for (XRun& run : stage_.runs) {
      run.wide_begin = static_cast<uint32_t>(escape);
      const uint32_t end = run.begin + run.count;
      while (escape < escapes.size() && escapes[escape] < end) ++escape;
      run.wide_count = static_cast<uint32_t>(escape) - run.wide_begin;
    }
    stage_.wide_count = static_cast<uint32_t>(escape - before);
    stage_.wide.resize_discard(scratch_.escapes.values.size() + kStageSlack);
    if (!scratch_.escapes.values.empty()) {
      std::memcpy(stage_.wide.data(), scratch_.escapes.values.data(),
                  scratch_.escapes.values.size());
    }
  }

  void make_room_for_values() {
    const size_t cells = stage_.cells + kStageSlack;
    if (stage_.raw) {
      stage_.wide.resize_discard(cells * value_bytes_);
    } else {
      stage_.codes.resize_discard(cells);
      stage_.wide.resize_discard(scratch_.escapes.values.size() + kStageSlack);
    }
  }

  // Escapes of tile cells [begin, end) for which `chosen` holds, appended to the stage.
  template <typename Chosen>
  void keep_escapes(uint32_t begin, uint32_t end, size_t& escape, XRun& run, Chosen&& chosen) {
    const auto& escapes = scratch_.escapes.cells;
    while (escape < escapes.size() && escapes[escape] < begin) ++escape;
    run.wide_begin = stage_.wide_count;
    for (; escape < escapes.size() && escapes[escape] < end; ++escape) {
      if (!chosen(escapes[escape])) continue;
      std::memcpy(stage_.wide.data() + size_t{stage_.wide_count} * value_bytes_,
                  scratch_.escapes.values.data() + escape * value_bytes_, value_bytes_);
      ++stage_.wide_count;
    }
    run.wide_count = stage_.wide_count - run.wide_begin;
  }

  // Closes the gaps of rows that are not chosen.
  template <typename Index>
  void keep_rows() {
    make_room_for_values();
    uint32_t out = 0;
    size_t escape = 0;
    for (XRun& run : stage_.runs) {
      const uint32_t from = run.begin;
      std::memcpy(stage_.indices.as<Index>().data() + out,
                  scratch_.indices.as<Index>().data() + from, run.count * sizeof(Index));
      if (stage_.raw) {
        std::memcpy(stage_.wide.data() + size_t{out} * value_bytes_,
                    scratch_.values.data() + size_t{from} * value_bytes_,
                    size_t{run.count} * value_bytes_);
        run.wide_begin = out;
        run.wide_count = run.count;
      } else {
        std::memcpy(stage_.codes.data() + out, scratch_.codes.data() + from, run.count);
        keep_escapes(from, from + run.count, escape, run, [](uint32_t) { return true; });
      }
      run.begin = out;
      out += run.count;
    }
  }

  // The same with a choice of columns: cells are moved one by one, without a branch.
  template <typename Id, typename Index>
  void choose_columns() {
    scratch_.indices.resize_discard((cells_ + kStageSlack) * sizeof(Id));
    Id* const ids = scratch_.indices.as<Id>().data();
    read_ids(0, ids);
    read_values(false);
    make_room_for_values();
    context_.columns.with_lookup([&](auto lookup) { keep_columns<Id, Index>(ids, lookup); });
  }

  template <typename Id, typename Index, typename Lookup>
  void keep_columns(const Id* ids, Lookup lookup) {
    uint32_t out = 0;
    size_t escape = 0;
    for (XRun& run : stage_.runs) {
      const uint32_t from = run.begin;
      const uint32_t end = from + run.count;
      run.begin = out;
      out = stage_.raw ? keep_raw<Index>(ids, lookup, from, end, out)
                       : keep_coded<Index>(ids, lookup, from, end, out);
      run.count = out - run.begin;
      if (stage_.raw) {
        run.wide_begin = run.begin;
        run.wide_count = run.count;
      } else {
        keep_escapes(from, end, escape, run,
                     [&](uint32_t cell) { return lookup(ids[cell]) != ColumnMap::kNotChosen; });
      }
    }
    stage_.cells = out;
    std::erase_if(stage_.runs, [](const XRun& run) { return run.count == 0; });
  }

  // Every cell is written, but the place advances only after a chosen cell: no branch to
  // mispredict.
  template <typename Index, typename Id, typename Lookup>
  uint32_t keep_coded(const Id* ids, Lookup lookup, uint32_t from, uint32_t end, uint32_t out) {
    Index* const indices = stage_.indices.as<Index>().data();
    const auto* const codes_in = reinterpret_cast<const uint8_t*>(scratch_.codes.data());
    auto* const codes = reinterpret_cast<uint8_t*>(stage_.codes.data());
    for (uint32_t i = from; i < end; ++i) {
      const uint32_t index = lookup(ids[i]);
      indices[out] = static_cast<Index>(index);
      codes[out] = codes_in[i];
      out += index != ColumnMap::kNotChosen;
    }
    return out;
  }

  template <typename Index, typename Id, typename Lookup>
  uint32_t keep_raw(const Id* ids, Lookup lookup, uint32_t from, uint32_t end, uint32_t out) {
    Index* const indices = stage_.indices.as<Index>().data();
    for (uint32_t i = from; i < end; ++i) {
      const uint32_t index = lookup(ids[i]);
      indices[out] = static_cast<Index>(index);
      std::memcpy(stage_.wide.data() + size_t{out} * value_bytes_,
                  scratch_.values.data() + size_t{i} * value_bytes_, value_bytes_);
      out += index != ColumnMap::kNotChosen;
    }
    return out;
  }

  template <typename Index>
  void check_order() {
    if (stage_.runs.empty()) return;
    const Index* const indices = stage_.indices.as<Index>().data();
    const uint32_t first = stage_.runs.front().begin;
    size_t between = 0;
    uint32_t last = 0;
    for (XRun& run : stage_.runs) {
      run.first_index = indices[run.begin];
      run.last_index = indices[run.begin + run.count - 1];
      between += run.begin != first && run.first_index <= last;
      last = run.last_index;
    }
    if (count_not_ascending(indices + first, stage_.cells, context_.path) == between) return;
    for (const XRun& run : stage_.runs) {
      for (uint32_t i = run.begin + 1; i < run.begin + run.count; ++i) {
        if (indices[i] < indices[i - 1]) {
          throw CorruptData(concat("columns of a row do not ascend: output column ", indices[i - 1],
                                   " is followed by ", indices[i]));
        }
      }
    }
    stage_.wants_timestamps =
        !context_.array.allows_duplicates() && fragment_.metadata->has_timestamps();
  }

  [[noreturn]] void bad_row(int64_t row) const {
    throw CorruptData(concat("row ", row, " outside the tile's bounds ", bounds_.row_first, " … ",
                             bounds_.row_last));
  }

  [[noreturn]] void bad_columns(const IdRange& range) const {
    throw CorruptData(concat("columns ", range.min, " … ", range.max,
                             (range.high != 0 ? " and above" : ""), " outside the tile's bounds ",
                             bounds_.column_first, " … ", bounds_.column_last));
  }

  const XDecodeContext& context_;
  const XFragment& fragment_;
  const uint32_t version_;
  const XTileBounds bounds_;
  const uint64_t cells_;
  const XTileBytes& bytes_;
  const XRowMap& rows_;
  XTileScratch& scratch_;
  XTileStage& stage_;
  const size_t value_bytes_;
};

}  // namespace

bool can_decode_runs(const XArray& array, XTileId id) {
  const XFragment& fragment = array.fragments()[id.fragment];
  return !fragment.general && fragment.bounds(id.tile).column_last <= int64_t{0xFFFFFFFF};
}

void decode_tile_runs(const XDecodeContext& context, XTileId id, const XTileBytes& bytes,
                      const XRowMap& rows, XTileScratch& scratch, XTileStage& stage) {
  stage.clear();
  stage.fragment = id.fragment;
  const XFragment& fragment = context.array.fragments()[id.fragment];
  with_place(
      [&] {
        if (fragment.cells(id.tile) >= 0xFFFFFFFFU - kStageSlack) {
          throw Unsupported(concat("tile of ", fragment.cells(id.tile), " cells"));
        }
        RunDecode(context, id, bytes, rows, scratch, stage).run();
      },
      [&] { return fragment.place(id.tile); });
}

}  // namespace penstock::format::soma
