#include "format/pack/packed_layer.h"

#include <penstock/error.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/concat.h"
#include "base/hash/hex.h"
#include "format/pack/reader.h"
#include "format/pack/record_runs.h"
#include "format/row_file/row_record.h"

namespace penstock::format::pack {
namespace {

constexpr uint64_t kSampleUnits = 8;
constexpr uint64_t kSampleRows = 32;

class PackSource final : public MatrixSource {
 public:
  explicit PackSource(std::shared_ptr<const PackedLayer> layer) : layer_(std::move(layer)) {}

  const MatrixInfo& info() const override { return layer_->info; }
  std::span<const plan::FetchUnit> units() const override { return layer_->units; }
  std::string content() const override {
    std::string text = "pack\n";
    for (const auto& file : layer_->files) {
      text += hex(file->facts().key) + " " + std::to_string(file->facts().row_begin) + "\n";
    }
    return text;
  }
  std::shared_ptr<const MatrixReader> reader(std::span<const int64_t> columns) const override {
    return std::make_shared<const PackReader>(layer_, columns);
  }

 private:
  std::shared_ptr<const PackedLayer> layer_;
};

void check(const RowFile& file, const RowFile* before, const PackedLayer& layer) {
  const RowFileFacts& facts = file.facts();
  if (facts.row_end > layer.info.row_domain_end ||
      facts.column_count != layer.files.front()->facts().column_count ||
      static_cast<int64_t>(facts.column_count) > layer.info.column_domain_end ||
      facts.value_type != layer.info.value_type) {
    throw CorruptData(concat("a row file of rows up to ", facts.row_end, ", ", facts.column_count,
                             " columns and type ", name_of(facts.value_type),
                             " in a matrix of another shape, ", file.path()));
  }
  if (before != nullptr && before->facts().row_end > facts.row_begin) {
    throw CorruptData(concat("row files overlap at row ", facts.row_begin, ": ", before->path(),
                             " and ", file.path()));
  }
}

void add_units(const RowFile& file, std::vector<plan::FetchUnit>& units) {
  const uint64_t count = file.rows().size();
  const double cells_a_byte =
      file.record_bytes() == 0
          ? 0
          : static_cast<double>(file.nonzeros()) / static_cast<double>(file.record_bytes());
  for (uint64_t first = 0; first < count;) {
    plan::FetchUnit unit;
    unit.row_begin = file.rows().at(first);
    unit.tile_count = 1;
    const uint64_t begin = file.place(first).offset;
    uint64_t end = begin;
    uint64_t next = first;
    for (; next < count && next - first < kUnitRows; ++next) {
      const RecordPlace place = file.place(next);
      if (next != first && place.offset + place.length - begin > kUnitBytes) break;
      end = place.offset + place.length;
    }
    unit.stored_bytes = end - begin;
    unit.cell_bound = static_cast<uint64_t>(static_cast<double>(end - begin) * cells_a_byte);
    units.push_back(unit);
    first = next;
  }
}

}  // namespace

RowLocation PackedLayer::find(int64_t row) const {
  const auto found = std::upper_bound(
      files.begin(), files.end(), row,
      [](int64_t wanted, const auto& file) { return wanted < file->facts().row_end; });
  RowLocation stored;
  if (found == files.end()) return stored;
  stored.file = static_cast<uint32_t>(found - files.begin());
  if (!(*found)->find(row, stored.place)) stored.place = {};
  return stored;
}

const SampledRows& PackedLayer::sampled_rows() const {
  return sampled_rows_.get([&] { return sample_rows(); });
}

SampledRows PackedLayer::sample_rows() const {
  SampledRows sample;
  const uint64_t step = std::max<uint64_t>(1, units.size() / kSampleUnits);
  for (uint64_t unit = 0; unit < units.size() && !files.empty(); unit += step) {
    const int64_t begin = units[unit].row_begin;
    const auto in_file =
        static_cast<uint32_t>(std::min<size_t>(find(begin).file, files.size() - 1));
    const RowFile& file = *files[in_file];
    const uint64_t position = file.rows().rank(begin);
    const uint64_t end = std::min<uint64_t>(file.rows().size(), position + kSampleRows);
    for (uint64_t i = position; i < end; ++i) {
      sample.stored.push_back({in_file, file.place(i)});
      sample.ids.push_back(file.rows().at(i));
    }
  }
  const auto runs = runs_of(sample.stored, files, 0);
  uint64_t length = 0;
  for (const RecordRun& run : runs) length += run.length;
  sample.bytes.resize_discard(length + kRecordSlack);
  sample.records.resize(sample.ids.size());
  std::vector<std::byte*> to;
  std::byte* next = sample.bytes.data();
  for (const RecordRun& run : runs) {
    to.push_back(next);
    for (size_t i = run.begin; i < run.end; ++i) {
      const RecordPlace& place = sample.stored[i].place;
      if (place.length != 0) sample.records[i] = {next + (place.offset - run.offset), place.length};
    }
    next += run.length;
  }
  read_runs(runs, files, to);
  std::memset(next, 0, kRecordSlack);
  return sample;
}

std::shared_ptr<const PackedLayer> make_layer(std::vector<std::shared_ptr<const RowFile>> files,
                                              MatrixInfo info) {
  auto layer = std::make_shared<PackedLayer>();
  layer->info = std::move(info);
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) {
    return a->facts().row_begin < b->facts().row_begin;
  });
  layer->files = std::move(files);
  layer->info.stored_cells = 0;
  layer->info.stored_bytes = 0;
  const RowFile* before = nullptr;
  for (const auto& file : layer->files) {
    check(*file, before, *layer);
    before = file.get();
    layer->info.stored_cells += file->nonzeros();
    layer->info.stored_bytes += file->file_bytes();
    add_units(*file, layer->units);
  }
  if (!layer->files.empty()) layer->stored_columns = layer->files.front()->facts().column_count;
  layer->info.fragment_count = static_cast<uint32_t>(layer->files.size());
  if (layer->units.empty()) layer->units.emplace_back();
  // Rows that no file has belong to the unit before them.
  auto& units = layer->units;
  units.front().row_begin = 0;
  for (size_t i = 1; i < units.size(); ++i) units[i - 1].row_end = units[i].row_begin;
  units.back().row_end = layer->info.row_domain_end;
  layer->info.tile_count = units.size();
  return layer;
}

MatrixSourcePtr open_layer(std::shared_ptr<const PackedLayer> layer) {
  return std::make_shared<const PackSource>(std::move(layer));
}

}  // namespace penstock::format::pack
