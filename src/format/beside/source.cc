#include "format/beside/source.h"

#include <penstock/error.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "base/concat.h"
#include "format/beside/reader.h"
#include "kernel/repack_row.h"

namespace penstock::format {
namespace {

class BesideSource final : public MatrixSource {
 public:
  explicit BesideSource(std::shared_ptr<const BesideMatrix> matrix) : matrix_(std::move(matrix)) {}

  const MatrixInfo& info() const override { return matrix_->info; }
  std::span<const plan::FetchUnit> units() const override { return matrix_->units; }
  std::string content() const override;
  bool in_memory() const override {
    return std::all_of(matrix_->parts.begin(), matrix_->parts.end(),
                       [](const MatrixSourcePtr& part) { return part->in_memory(); });
  }
  bool is_cached(const RowSelection& rows) const override;
  std::shared_ptr<const MatrixReader> reader(std::span<const int64_t> columns) const override {
    return std::make_shared<const BesideReader>(matrix_, columns);
  }

 private:
  std::shared_ptr<const BesideMatrix> matrix_;
};

std::string BesideSource::content() const {
  std::string text = concat("beside ", matrix_->parts.size(), "\n");
  for (const MatrixSourcePtr& part : matrix_->parts) {
    const std::string own = part->content();
    if (own.empty()) return {};
    text += concat(part->info().column_domain_end, " ", own.size(), "\n", own);
  }
  return text;
}

bool BesideSource::is_cached(const RowSelection& rows) const {
  return std::all_of(matrix_->parts.begin(), matrix_->parts.end(), [&](const auto& part) {
    return part->is_cached(rows & RowSelection::range(0, part->info().row_domain_end));
  });
}

double share_of(const plan::FetchUnit& piece, const plan::FetchUnit& whole) {
  return static_cast<double>(piece.row_end - piece.row_begin) /
         static_cast<double>(whole.row_end - whole.row_begin);
}

template <typename T>
T part_of(T whole, double share) {
  return static_cast<T>(std::ceil(static_cast<double>(whole) * share));
}

/// Makes the units of all parts in one pass over their ends.
void add_units(BesideMatrix& matrix) {
  const size_t parts = matrix.parts.size();
  std::vector<size_t> next(parts, 0);  // the unit of each part at `row` or after it
  const auto units_of = [&](size_t part) { return matrix.parts[part]->units(); };
  for (int64_t row = 0;;) {
    int64_t begin = std::numeric_limits<int64_t>::max();
    for (size_t part = 0; part < parts; ++part) {
      const auto units = units_of(part);
      while (next[part] < units.size() && units[next[part]].row_end <= row) ++next[part];
      if (next[part] < units.size()) begin = std::min(begin, units[next[part]].row_begin);
    }
    if (begin == std::numeric_limits<int64_t>::max()) return;
    plan::FetchUnit piece;
    piece.row_begin = std::max(begin, row);
    piece.row_end = std::numeric_limits<int64_t>::max();
    for (size_t part = 0; part < parts; ++part) {
      if (next[part] == units_of(part).size()) continue;
      const plan::FetchUnit& unit = units_of(part)[next[part]];
      const bool has_begun = unit.row_begin <= piece.row_begin;
      piece.row_end = std::min(piece.row_end, has_begun ? unit.row_end : unit.row_begin);
    }
    for (size_t part = 0; part < parts; ++part) {
      uint32_t own = kNoUnit;
      if (next[part] < units_of(part).size() &&
          units_of(part)[next[part]].row_begin <= piece.row_begin) {
        own = static_cast<uint32_t>(next[part]);
        const plan::FetchUnit& unit = units_of(part)[own];
        const double share = share_of(piece, unit);
        piece.cell_bound += part_of(unit.cell_bound, share);
        piece.stored_bytes += part_of(unit.stored_bytes, share);
        piece.tile_count += part_of(unit.tile_count, share);
      }
      matrix.unit_of_part.push_back(own);
    }
    matrix.units.push_back(piece);
    row = piece.row_end;
  }
}

}  // namespace

std::span<const uint32_t> BesideMatrix::units_of(uint32_t unit) const {
  if (unit >= units.size()) throw InvalidArgument(concat("no fetch unit ", unit));
  return std::span(unit_of_part).subspan(size_t{unit} * parts.size(), parts.size());
}

MatrixSourcePtr put_beside(std::vector<MatrixSourcePtr> sources) {
  if (sources.empty()) throw InvalidArgument("matrices beside one another: one or more are needed");
  auto matrix = std::make_shared<BesideMatrix>();
  MatrixInfo& info = matrix->info;
  info.value_type = sources.front()->info().value_type;
  matrix->first_column.push_back(0);
  for (const MatrixSourcePtr& source : sources) {
    const MatrixInfo& own = source->info();
    if (own.column_domain_end > std::numeric_limits<int32_t>::max() - matrix->first_column.back()) {
      throw InvalidArgument(
          concat("matrices beside one another have too many columns: ", matrix->first_column.back(),
                 " and ", own.column_domain_end, " more"));
    }
    info.value_type = kernel::common_value_type(info.value_type, own.value_type);
    info.stored_cells += own.stored_cells;
    info.stored_bytes += own.stored_bytes;
    info.tile_count += own.tile_count;
    info.fragment_count += own.fragment_count;
    info.row_domain_end = std::max(info.row_domain_end, own.row_domain_end);
    matrix->first_column.push_back(matrix->first_column.back() + own.column_domain_end);
  }
  info.column_domain_end = matrix->first_column.back();
  info.layout = concat(sources.size(), " matrices beside one another");
  matrix->parts = std::move(sources);
  add_units(*matrix);
  return std::make_shared<BesideSource>(std::move(matrix));
}

}  // namespace penstock::format
