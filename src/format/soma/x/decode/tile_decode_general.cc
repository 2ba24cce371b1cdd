#include <penstock/error.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "base/checked.h"
#include "base/concat.h"
#include "format/soma/x/decode/tile_decode.h"
#include "kernel/pack_row.h"

namespace penstock::format::soma {
namespace {

class GeneralDecode {
 public:
  GeneralDecode(const XDecodeContext& context, XTileId id, const XTileBytes& bytes,
                const XRowMap& rows, XTileScratch& scratch, XTileStage& stage)
      : context_(context),
        fragment_(context.array.fragments()[id.fragment]),
        bounds_(fragment_.bounds(id.tile)),
        cells_(fragment_.cells(id.tile)),
        bytes_(bytes),
        row_map_(rows),
        scratch_(scratch),
        stage_(stage),
        value_bytes_(context.layout.value_bytes) {}

  void run() {
    rows_ = read<int64_t>(XPart::kRows, scratch_.rows);
    columns_ = read<int64_t>(XPart::kColumns, scratch_.columns);
    read<std::byte>(XPart::kValues, scratch_.values);
    timestamps_ = read<uint64_t>(XPart::kTimestamps, scratch_.timestamps);
    const auto deletes = read<uint64_t>(XPart::kDeleteTimestamps, scratch_.delete_timestamps);
    check_bounds();
    order_cells();
    apply_deletes(deletes);
    if (context_.layout.index_bytes == 2) {
      place<uint16_t>();
    } else {
      place<uint32_t>();
    }
  }

 private:
  template <typename T>
  std::span<const T> read(XPart part, Buffer& buffer) {
    if (part > XPart::kValues && bytes_[part].empty()) return {};
    const tiledb::FragmentField& field = fragment_.field(part);
    if (field.filters->decoded_bytes(bytes_[part]) !=
        checked_mul(cells_, uint64_t{field.cell_bytes()}, "tile size")) {
      throw CorruptData(concat("tile of ", field.name, " does not hold ", cells_, " cells"));
    }
    buffer.resize_discard(cells_ * field.cell_bytes());
    decode_tile_cells(field, fragment_.metadata->footer().format_version, bytes_[part], cells_,
                      buffer.span(), scratch_.cells);
    return std::as_const(buffer).as<T>();
  }

  void check_bounds() const {
    for (size_t i = 0; i < cells_; ++i) {
      if (rows_[i] >= bounds_.row_first && rows_[i] <= bounds_.row_last &&
          columns_[i] >= bounds_.column_first && columns_[i] <= bounds_.column_last) {
        continue;
      }
      throw CorruptData(concat("cell ", i, " at row ", rows_[i], ", column ", columns_[i],
                               " outside the tile's bounds"));
    }
  }

  bool in_time(size_t cell) const {
    if (!fragment_.filter_time) return true;
    const auto& range = context_.array.time_range();
    return timestamps_[cell] >= range.start && timestamps_[cell] <= range.end;
  }

  // Chosen cells, by row, then output column, then as stored.
  void order_cells() {
    if (fragment_.filter_time && timestamps_.empty()) {
      throw CorruptData("fragment without the timestamps of its cells");
    }
    auto& order = scratch_.order;
    order.clear();
    bool sorted = true;
    for (size_t i = 0; i < cells_; ++i) {
      const uint32_t row = row_map_.find(rows_[i]);
      if (row == XRowMap::kNotChosen) continue;
      const uint32_t column = context_.columns.find(columns_[i]);
      if (column == ColumnMap::kNotChosen || !in_time(i)) continue;
      const uint64_t key = uint64_t{row} << 32 | column;
      sorted &= order.empty() || order.back().first <= key;
      order.emplace_back(key, static_cast<uint32_t>(i));
    }
    if (!sorted) std::sort(order.begin(), order.end());
  }

  // Sets keep[i] to 0 for deleted cells. If duplicates are not allowed, deleted cells stay for now,
  // because they hide older cells of their place; otherwise they are removed here.
  void apply_deletes(std::span<const uint64_t> delete_timestamps) {
    any_deleted_ = false;
    if (fragment_.deletes.empty()) return;
    scratch_.keep.assign(cells_, 1);
    std::vector<tiledb::FieldCells> fields;
    for (const std::string& name : fragment_.deletes.fields()) {
      const Buffer& from = name == fragment_.field(XPart::kRows).name      ? scratch_.rows
                           : name == fragment_.field(XPart::kColumns).name ? scratch_.columns
                                                                           : scratch_.values;
      fields.push_back({.data = from.span(), .offsets = {}, .validity = {}});
    }
    if ((fragment_.deletes.needs_timestamps() && timestamps_.empty()) ||
        (fragment_.deletes.needs_delete_timestamps() && delete_timestamps.empty())) {
      throw CorruptData("fragment without the timestamps that its deletes need");
    }
    fragment_.deletes.apply(fields, timestamps_, delete_timestamps, scratch_.keep);
    auto& order = scratch_.order;
    if (context_.array.allows_duplicates()) {
      std::erase_if(order, [&](const auto& cell) { return scratch_.keep[cell.second] == 0; });
    } else {
      any_deleted_ = std::any_of(order.begin(), order.end(),
                                 [&](const auto& cell) { return scratch_.keep[cell.second] == 0; });
    }
  }

  template <typename Index>
  void place() {
    const auto& order = scratch_.order;
    stage_.cells = static_cast<uint32_t>(order.size());
    const size_t room = order.size() + kStageSlack;
    stage_.indices.resize_discard(room * sizeof(Index));
    stage_.codes.resize_discard(room);
    Buffer& values = scratch_.codes;
    values.resize_discard(room * value_bytes_);
    for (size_t i = 0; i < order.size(); ++i) {
      const uint32_t cell = order[i].second;
      stage_.indices.as<Index>()[i] = static_cast<Index>(order[i].first);
      std::memcpy(values.data() + i * value_bytes_,
                  scratch_.values.data() + size_t{cell} * value_bytes_, value_bytes_);
      const auto row = static_cast<uint32_t>(order[i].first >> 32);
      if (stage_.runs.empty() || stage_.runs.back().row != row) {
        stage_.runs.push_back({.row = row, .begin = static_cast<uint32_t>(i)});
      }
      ++stage_.runs.back().count;
    }
    place_values(values);
    place_duplicate_marks();
  }

  void place_values(const Buffer& values) {
    auto* const codes = reinterpret_cast<uint8_t*>(stage_.codes.data());
    const uint32_t escapes = kernel::encode_values(context_.layout.value_type, values.data(),
                                                   stage_.cells, codes, context_.path);
    stage_.wide.resize_discard(size_t{escapes} * value_bytes_ + kStageSlack);
    for (XRun& run : stage_.runs) {
      run.wide_begin = stage_.wide_count;
      for (uint32_t i = run.begin; i < run.begin + run.count; ++i) {
        if (codes[i] != kEscapeCode) continue;
        std::memcpy(stage_.wide.data() + size_t{stage_.wide_count++} * value_bytes_,
                    values.data() + size_t{i} * value_bytes_, value_bytes_);
      }
      run.wide_count = stage_.wide_count - run.wide_begin;
      run.first_index = static_cast<uint32_t>(scratch_.order[run.begin].first);
      run.last_index = static_cast<uint32_t>(scratch_.order[run.begin + run.count - 1].first);
    }
  }

  void place_duplicate_marks() {
    if (context_.array.allows_duplicates()) return;
    const auto& order = scratch_.order;
    if (!timestamps_.empty()) {
      for (const auto& cell : order) stage_.timestamps.push_back(timestamps_[cell.second]);
    } else if (fragment_.metadata->has_timestamps()) {
      stage_.wants_timestamps =
          std::adjacent_find(order.begin(), order.end(), [](const auto& a, const auto& b) {
            return a.first == b.first;
          }) != order.end();
    }
    if (!any_deleted_) return;
    for (const auto& cell : order) stage_.deleted.push_back(scratch_.keep[cell.second] == 0);
  }

  const XDecodeContext& context_;
  const XFragment& fragment_;
  const XTileBounds bounds_;
  const uint64_t cells_;
  const XTileBytes& bytes_;
  const XRowMap& row_map_;
  XTileScratch& scratch_;
  XTileStage& stage_;
  const size_t value_bytes_;
  std::span<const int64_t> rows_, columns_;
  std::span<const uint64_t> timestamps_;
  bool any_deleted_ = false;
};

}  // namespace

uint64_t scratch_bytes(const XArray& array, XTileId id) {
  const uint64_t cells = array.fragments()[id.fragment].cells(id.tile);
  // By runs: the start of each, and a few chunks of cells in several forms.
  constexpr uint64_t kChunkCells = uint64_t{1} << 16;
  if (can_decode_runs(array, id))
    return cells * sizeof(uint32_t) + std::min(cells, kChunkCells) * 12;
  const XFragment& fragment = array.fragments()[id.fragment];
  uint64_t cell_bytes =
      sizeof(std::pair<uint64_t, uint32_t>) + 1 + size_of(array.info().value_type);
  for (size_t part = 0; part < kXPartCount; ++part) {
    if (fragment.reads(XPart(part))) cell_bytes += fragment.field(XPart(part)).cell_bytes();
  }
  return cells * cell_bytes;
}

void decode_tile_general(const XDecodeContext& context, XTileId id, const XTileBytes& bytes,
                         const XRowMap& rows, XTileScratch& scratch, XTileStage& stage) {
  stage.clear();
  stage.fragment = id.fragment;
  const XFragment& fragment = context.array.fragments()[id.fragment];
  with_place(
      [&] {
        if (fragment.cells(id.tile) >= 0xFFFFFFFFU - kStageSlack) {
          throw Unsupported(concat("tile of ", fragment.cells(id.tile), " cells"));
        }
        GeneralDecode(context, id, bytes, rows, scratch, stage).run();
      },
      [&] { return fragment.place(id.tile); });
}

}  // namespace penstock::format::soma
