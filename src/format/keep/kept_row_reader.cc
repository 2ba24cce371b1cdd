#include "format/keep/kept_row_reader.h"

#include <penstock/error.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/concat.h"
#include "format/row_file/row_record.h"
#include "kernel/pack_row.h"
#include "kernel/select_columns.h"

namespace penstock::format {
namespace {

/// Place, length and address of a row in a RowBuffer.
constexpr double kRowBytes = 48;

struct UnitOfRows {
  int64_t row_end = 0;
  KeptUnitRows kept;
};

/// Places of the kept columns that are chosen; none if some are not kept.
std::optional<std::vector<uint32_t>> places_of(std::span<const int64_t> columns,
                                               const std::vector<int64_t>& kept) {
  std::vector<uint32_t> places;
  places.reserve(columns.size());
  auto at = kept.begin();
  for (const int64_t column : columns) {
    at = std::lower_bound(at, kept.end(), column);
    if (at == kept.end() || *at != column) return std::nullopt;
    places.push_back(static_cast<uint32_t>(at - kept.begin()));
  }
  return places;
}

class KeptRowReader final : public RowReader {
 public:
  KeptRowReader(std::vector<UnitOfRows> units, const kernel::PackedRowLayout& kept_layout,
                size_t kept_columns, std::span<const uint32_t> chosen)
      : units_(std::move(units)),
        kept_layout_(kept_layout),
        choice_(chosen, static_cast<uint32_t>(kept_columns)),
        layout_(kernel::make_row_layout(chosen.size(), kept_layout.value_type)),
        decoder_(kept_layout, kept_columns) {}

  const kernel::PackedRowLayout& row_layout() const override { return layout_; }

  bool in_memory() const override { return true; }

  void read(std::span<const int64_t> rows, RowBuffer& out) const override {
    if (out.scratch == nullptr) out.scratch = std::make_unique<Scratch>();
    auto& scratch = static_cast<Scratch&>(*out.scratch);
    out.bytes_read = out.cached_bytes = out.read_count = 0;
    out.records.resize(rows.size());
    out.nnz.resize(rows.size());
    scratch.places.resize(rows.size());
    size_t bytes = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      scratch.places[i] = place_of(rows[i]);
      bytes += room_of(scratch.places[i]);
    }
    out.bytes.resize_discard(bytes);
    std::byte* to = out.bytes.data();
    for (size_t i = 0; i < rows.size(); ++i) {
      const KeptPlace& place = scratch.places[i];
      out.records[i] = place.record().record;
      out.nnz[i] = place.info().nnz;
      const size_t room = room_of(place);
      if (room == 0) continue;
      out.nnz[i] = write(place, to, scratch.whole);
      out.records[i] = to;
      to += room;
    }
  }

  double buffer_bytes_per_row() const override {
    return kRowBytes + mean([&](const KeptPlace& place) { return room_of(place); });
  }

  double packed_bytes_per_row() const override {
    return mean([&](const KeptPlace& place) {
      return layout_.record_bytes(place.info().nnz, place.info().wide_count);
    });
  }

  uint64_t bytes_needed(std::span<const int64_t> /*rows*/) const override { return 0; }

 private:
  struct Scratch final : RowBuffer::Scratch {
    std::vector<KeptPlace> places;
    Buffer whole;
    size_t memory_bytes() const noexcept override {
      return places.capacity() * sizeof(KeptPlace) + whole.capacity();
    }
  };

  KeptPlace place_of(int64_t row) const {
    const auto unit = std::upper_bound(
        units_.begin(), units_.end(), row,
        [](int64_t wanted, const UnitOfRows& each) { return wanted < each.row_end; });
    const KeptPlace place = unit == units_.end() ? KeptPlace() : unit->kept.find(row);
    if (place.block != nullptr) return place;
    throw InvalidArgument(concat("row ", row, " is none of those that are kept"));
  }

  template <typename BytesOf>
  double mean(BytesOf&& bytes_of) const {
    double bytes = 0, rows = 1;
    for (const auto& unit : units_) {
      for (const auto& block : unit.kept.blocks) {
        rows += static_cast<double>(block->rows.size());
        for (uint32_t i = 0; i < block->rows.size(); ++i) {
          bytes += static_cast<double>(bytes_of(KeptPlace{block.get(), i}));
        }
      }
    }
    return bytes / rows;
  }

  /// Bytes that write() may write; 0 if the row is used where it is.
  size_t room_of(const KeptPlace& place) const noexcept {
    const KeptRow& row = place.info();
    if (row.nnz == 0 || (choice_.all() && place.block->form == KeptForm::kWide)) return 0;
    return std::max(kept_layout_.record_bytes(row.nnz, row.wide_count),
                    layout_.record_bytes(row.nnz, row.wide_count));
  }

  /// Unpacks the row and chooses its columns. Returns the number of its non-zeros.
  uint32_t write(const KeptPlace& place, std::byte* to, Buffer& whole) const {
    const KeptRow& row = place.info();
    const KeptRecord kept = place.record();
    const std::byte* packed = kept.record;
    if (kept.stored_bytes != 0) {
      std::byte* unpacked = to;
      if (!choice_.all()) {
        whole.resize_discard(kept_layout_.record_bytes(row.nnz, row.wide_count));
        unpacked = whole.data();
      }
      decoder_.decode({kept.record, kept.stored_bytes}, {row.nnz, row.wide_count}, unpacked);
      packed = unpacked;
    }
    if (choice_.all()) return row.nnz;
    return kernel::select_columns(kept_layout_, packed, choice_, layout_, to).nnz;
  }

  const std::vector<UnitOfRows> units_;
  const kernel::PackedRowLayout kept_layout_;
  const kernel::ColumnChoice choice_;
  const kernel::PackedRowLayout layout_;
  const pack::RowDecoder decoder_;
};

}  // namespace

RowReaderPtr kept_row_reader(const KeepStore& store, const MatrixSource& source,
                             std::span<const int64_t> columns, const RowSelection& rows) {
  const KeptColumns kept = store.columns_of(source);
  if (kept == nullptr) return nullptr;
  const auto chosen = places_of(columns, *kept);
  if (!chosen) return nullptr;
  std::vector<UnitOfRows> units;
  std::vector<int64_t> wanted;
  const auto places = source.units();
  for (uint32_t unit = 0; unit < places.size(); ++unit) {
    wanted.clear();
    rows.copy_range(places[unit].row_begin, places[unit].row_end, wanted);
    units.push_back({places[unit].row_end, {}});
    if (wanted.empty()) continue;
    units.back().kept = store.find(kept, unit);
    if (!units.back().kept.has_all(wanted)) return nullptr;
  }
  const auto layout = kernel::make_row_layout(kept->size(), source.info().value_type);
  return std::make_shared<const KeptRowReader>(std::move(units), layout, kept->size(), *chosen);
}

}  // namespace penstock::format
