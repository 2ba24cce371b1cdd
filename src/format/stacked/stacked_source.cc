#include "format/stacked/stacked_source.h"

#include <penstock/error.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/checked.h"
#include "base/concat.h"

namespace penstock::format {
namespace {

struct Stack {
  std::vector<MatrixSourcePtr> parts;
  std::vector<int64_t> first_row;  ///< of each part, and one past the last
  std::vector<size_t> first_unit;  ///< the same of units
  std::vector<plan::FetchUnit> units;
  MatrixInfo info;

  size_t part_of(uint32_t unit) const {
    if (unit >= units.size()) throw InvalidArgument(concat("no fetch unit ", unit));
    const auto next = std::upper_bound(first_unit.begin(), first_unit.end(), size_t{unit});
    return static_cast<size_t>(next - first_unit.begin()) - 1;
  }
  /// Rows of a part, numbered as in the part.
  RowSelection rows_of(size_t part, const RowSelection& rows) const {
    std::vector<int64_t> own;
    rows.copy_range(first_row[part], first_row[part + 1], own);
    for (int64_t& row : own) row -= first_row[part];
    return RowSelection::from_sorted(own);
  }
};

class StackedDecode final : public UnitDecode {
 public:
  explicit StackedDecode(std::unique_ptr<UnitDecode> decode) : decode_(std::move(decode)) {}

  void fetch() override { decode_->fetch(); }
  size_t phase_count() const override { return decode_->phase_count(); }
  size_t task_count(size_t phase) const override { return decode_->task_count(phase); }
  void run(size_t phase, size_t task) override { decode_->run(phase, task); }
  uint32_t row_count() const override { return decode_->row_count(); }
  uint32_t nnz(uint32_t row) const override { return decode_->nnz(row); }
  size_t packed_bytes(uint32_t row) const override { return decode_->packed_bytes(row); }
  uint32_t wide_count(uint32_t row) const override { return decode_->wide_count(row); }
  void pack(uint32_t row, std::byte* destination) const override {
    decode_->pack(row, destination);
  }
  uint64_t bytes_read() const override { return decode_->bytes_read(); }
  uint64_t read_count() const override { return decode_->read_count(); }
  uint64_t cached_bytes() const override { return decode_->cached_bytes(); }
  void take_buffers(UnitDecode& finished) override {
    if (auto* const other = dynamic_cast<StackedDecode*>(&finished)) {
      decode_->take_buffers(*other->decode_);
    }
  }

  std::unique_ptr<UnitDecode> release() { return std::move(decode_); }

 private:
  std::unique_ptr<UnitDecode> decode_;
};

class StackedReader final : public MatrixReader {
 public:
  StackedReader(std::shared_ptr<const Stack> stack, std::span<const int64_t> columns)
      : stack_(std::move(stack)) {
    for (const MatrixSourcePtr& part : stack_->parts) readers_.push_back(part->reader(columns));
  }

  const kernel::PackedRowLayout& row_layout() const override { return readers_[0]->row_layout(); }

  std::unique_ptr<UnitDecode> start(uint32_t unit, std::vector<int64_t> rows,
                                    std::unique_ptr<UnitDecode> recycled) const override {
    const size_t part = stack_->part_of(unit);
    for (int64_t& row : rows) row -= stack_->first_row[part];
    std::unique_ptr<UnitDecode> own;
    if (auto* const other = dynamic_cast<StackedDecode*>(recycled.get())) own = other->release();
    return std::make_unique<StackedDecode>(
        readers_[part]->start(own_unit(part, unit), std::move(rows), std::move(own)));
  }

  uint64_t in_flight_bytes(uint32_t unit) const override {
    const size_t part = stack_->part_of(unit);
    return readers_[part]->in_flight_bytes(own_unit(part, unit));
  }
  uint64_t fetched_bytes(uint32_t unit) const override {
    const size_t part = stack_->part_of(unit);
    return readers_[part]->fetched_bytes(own_unit(part, unit));
  }

  uint64_t decode_bytes(uint32_t unit, std::span<const int64_t> rows) const override {
    const size_t part = stack_->part_of(unit);
    std::vector<int64_t> own(rows.begin(), rows.end());
    for (int64_t& row : own) row -= stack_->first_row[part];
    return readers_[part]->decode_bytes(own_unit(part, unit), own);
  }
  bool remote() const override { return readers_[0]->remote(); }

  double packed_bytes_per_cell() const override {
    double bytes = 0, cells = 0;
    for (size_t part = 0; part < readers_.size(); ++part) {
      const auto stored = static_cast<double>(stack_->parts[part]->info().stored_cells);
      bytes += stored * readers_[part]->packed_bytes_per_cell();
      cells += stored;
    }
    return cells == 0 ? readers_[0]->packed_bytes_per_cell() : bytes / cells;
  }
  double packed_bytes_per_cell_of(uint32_t unit) const override {
    const size_t part = stack_->part_of(unit);
    return readers_[part]->packed_bytes_per_cell_of(own_unit(part, unit));
  }

  uint64_t bytes_needed(const RowSelection& rows) const override {
    uint64_t bytes = 0;
    for (size_t part = 0; part < readers_.size(); ++part) {
      bytes += readers_[part]->bytes_needed(stack_->rows_of(part, rows));
    }
    return bytes;
  }
  uint64_t visit_bytes(uint32_t unit, const RowSelection& rows) const override {
    const size_t part = stack_->part_of(unit);
    return readers_[part]->visit_bytes(own_unit(part, unit), stack_->rows_of(part, rows));
  }

 private:
  uint32_t own_unit(size_t part, uint32_t unit) const {
    return static_cast<uint32_t>(unit - stack_->first_unit[part]);
  }

  std::shared_ptr<const Stack> stack_;
  std::vector<std::shared_ptr<const MatrixReader>> readers_;
};

class StackedSource final : public MatrixSource {
 public:
  explicit StackedSource(std::vector<MatrixSourcePtr> parts) {
    if (parts.empty()) throw InvalidArgument("there is no matrix to stack");
    auto stack = std::make_shared<Stack>();
    stack->info = parts[0]->info();
    stack->info.row_domain_end = 0;
    stack->info.stored_cells = stack->info.stored_bytes = stack->info.tile_count = 0;
    stack->info.fragment_count = 0;
    for (const MatrixSourcePtr& part : parts) add(*part, *stack);
    stack->first_row.push_back(stack->info.row_domain_end);
    stack->first_unit.push_back(stack->units.size());
    stack->parts = std::move(parts);
    stack_ = std::move(stack);
  }

  const MatrixInfo& info() const override { return stack_->info; }
  std::span<const plan::FetchUnit> units() const override { return stack_->units; }
  std::string content() const override {
    std::string text = "stacked\n";
    for (const MatrixSourcePtr& part : stack_->parts) {
      const std::string own = part->content();
      if (own.empty()) return {};
      text += std::to_string(own.size()) + "\n" + own;
    }
    return text;
  }
  std::shared_ptr<const MatrixReader> reader(std::span<const int64_t> columns) const override {
    return std::make_shared<const StackedReader>(stack_, columns);
  }

 private:
  static void add(const MatrixSource& part, Stack& stack) {
    const MatrixInfo& own = part.info();
    MatrixInfo& all = stack.info;
    if (own.column_domain_end != all.column_domain_end || own.value_type != all.value_type) {
      throw CorruptData(concat("matrices must have the same columns and types, found ",
                               all.column_domain_end, " columns of ", name_of(all.value_type),
                               " and ", own.column_domain_end, " of ", name_of(own.value_type)));
    }
    stack.first_row.push_back(all.row_domain_end);
    stack.first_unit.push_back(stack.units.size());
    for (plan::FetchUnit unit : part.units()) {
      unit.row_begin += all.row_domain_end;
      unit.row_end += all.row_domain_end;
      stack.units.push_back(unit);
    }
    all.row_domain_end = checked_add(all.row_domain_end, own.row_domain_end, "rows");
    all.stored_cells += own.stored_cells;
    all.stored_bytes += own.stored_bytes;
    all.tile_count += own.tile_count;
    all.fragment_count += own.fragment_count;
  }

  std::shared_ptr<const Stack> stack_;
};

}  // namespace

MatrixSourcePtr stack_sources(std::vector<MatrixSourcePtr> parts) {
  if (parts.size() == 1) return std::move(parts[0]);
  return std::make_shared<const StackedSource>(std::move(parts));
}

}  // namespace penstock::format
