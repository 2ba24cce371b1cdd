#include "format/joined/source.h"

#include <penstock/error.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "base/concat.h"
#include "format/joined/reader.h"

namespace penstock::format {
namespace {

class JoinedSource final : public MatrixSource {
 public:
  explicit JoinedSource(std::shared_ptr<const JoinedMatrix> matrix) : matrix_(std::move(matrix)) {}

  const MatrixInfo& info() const override { return matrix_->info; }
  std::span<const plan::FetchUnit> units() const override { return matrix_->units; }
  std::string content() const override;
  bool in_memory() const override {
    return std::all_of(matrix_->parts.begin(), matrix_->parts.end(),
                       [](const JoinedPart& part) { return part.source->in_memory(); });
  }
  std::shared_ptr<const MatrixReader> reader(std::span<const int64_t> columns) const override {
    return std::make_shared<const JoinedReader>(matrix_, columns);
  }

 private:
  std::shared_ptr<const JoinedMatrix> matrix_;
};

/// For each part: its content, and its rows and columns in the joined matrix.
std::string JoinedSource::content() const {
  std::string text = "joined " + std::to_string(matrix_->info.column_domain_end) + "\n";
  for (const JoinedPart& part : matrix_->parts) {
    const std::string own = part.source->content();
    if (own.empty()) return {};
    text +=
        "rows " + std::to_string(part.row_offset) + " " + std::to_string(part.row_end) + "\n" + own;
    for (size_t i = 0; i < part.columns.size(); ++i) {
      text += std::to_string(part.columns[i]) + " " + std::to_string(part.joined_columns[i]) + "\n";
    }
  }
  return text;
}

void check(const JoinedPart& part, int64_t least_offset, int64_t column_count) {
  if (part.row_offset % kRowsPerWord != 0 || part.row_offset < least_offset || part.row_end < 0 ||
      part.row_end > std::numeric_limits<int64_t>::max() - part.row_offset) {
    throw InvalidArgument(
        concat("rows of a joined matrix must begin behind those before, at a multiple of "
               "2^32: offset ",
               part.row_offset, ", end ", part.row_end));
  }
  if (part.columns.size() != part.joined_columns.size()) {
    throw InvalidArgument(
        concat("columns of a joined matrix have one number each: ", part.columns.size(),
               " columns, ", part.joined_columns.size(), " numbers"));
  }
  std::vector<bool> taken(static_cast<size_t>(column_count), false);
  for (const uint32_t column : part.joined_columns) {
    if (int64_t{column} >= column_count || taken[column]) {
      throw InvalidArgument(concat("a column of a joined matrix is outside it or comes twice: ",
                                   column, " of ", column_count));
    }
    taken[column] = true;
  }
}

void add_units(JoinedMatrix& matrix, const JoinedPart& part) {
  const auto units = part.source->units();
  for (size_t i = 0; i < units.size(); ++i) {
    plan::FetchUnit unit = units[i];
    if (unit.row_begin >= part.row_end) break;
    unit.row_end = std::min(unit.row_end, part.row_end) + part.row_offset;
    unit.row_begin += part.row_offset;
    matrix.units.push_back(unit);
    matrix.unit_of_part.push_back(static_cast<uint32_t>(i));
  }
}

}  // namespace

MatrixSourcePtr join_sources(std::vector<JoinedPart> parts, int64_t column_count) {
  if (parts.empty()) throw InvalidArgument("a joined matrix needs one part or more");
  if (column_count < 0 || column_count > std::numeric_limits<int32_t>::max()) {
    throw InvalidArgument(concat("too many columns to join: ", column_count));
  }
  auto matrix = std::make_shared<JoinedMatrix>();
  MatrixInfo& info = matrix->info;
  info.column_domain_end = column_count;
  info.value_type = parts.front().source->info().value_type;
  int64_t least_offset = 0;
  for (const JoinedPart& part : parts) {
    check(part, least_offset, column_count);
    const MatrixInfo& own = part.source->info();
    info.value_type = kernel::common_value_type(info.value_type, own.value_type);
    info.stored_cells += own.stored_cells;
    info.stored_bytes += own.stored_bytes;
    info.tile_count += own.tile_count;
    info.fragment_count += own.fragment_count;
    info.row_domain_end = part.row_offset + part.row_end;
    least_offset = info.row_domain_end;
    matrix->first_unit.push_back(matrix->units.size());
    add_units(*matrix, part);
  }
  matrix->first_unit.push_back(matrix->units.size());
  info.layout = std::to_string(parts.size()) + " matrices joined";
  matrix->parts = std::move(parts);
  return std::make_shared<JoinedSource>(std::move(matrix));
}

}  // namespace penstock::format
