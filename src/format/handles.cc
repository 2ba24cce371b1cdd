#include <penstock/error.h>
#include <penstock/experiment.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "format/handle_access.h"
#include "format/stored_experiment.h"
#include "format/stored_matrix.h"
#include "format/stored_table.h"
#include "format/value_sample.h"

// The public handles pass each call on to what their format implements.

namespace penstock {

const std::string& Experiment::uri() const { return state_->stored->uri(); }
const OpenOptions& Experiment::options() const { return state_->stored->options(); }
DataFrame Experiment::obs() const { return state_->stored->obs(); }
std::vector<std::string> Experiment::measurements() const { return state_->stored->measurements(); }
DataFrame Experiment::var(std::string_view measurement) const {
  return state_->stored->var(measurement);
}
std::vector<std::string> Experiment::layers(std::string_view measurement) const {
  return state_->stored->layers(measurement);
}
std::string Experiment::default_layer(std::string_view measurement) const {
  return state_->stored->default_layer(measurement);
}
Matrix Experiment::x(std::string_view measurement, std::string_view layer) const {
  return HandleAccess::named(state_->stored->x(measurement, layer), measurement, layer);
}
std::map<std::string, std::string> Experiment::metadata() const {
  return state_->stored->metadata();
}

const std::vector<ColumnInfo>& DataFrame::columns() const { return state_->table->columns(); }
const UnreadColumns& DataFrame::unread_columns() const { return state_->table->unread_columns(); }
uint64_t DataFrame::row_count() const { return state_->table->row_count(); }
const std::string& DataFrame::uri() const { return state_->table->uri(); }
std::string DataFrame::content() const { return state_->table->content(); }
Table DataFrame::read(const ReadOptions& options) const { return state_->table->read(options); }
RowSelection DataFrame::select(std::string_view value_filter,
                               std::span<const ConstantColumn> constants) const {
  return state_->table->select(value_filter, constants);
}

void format::expect_read(const std::vector<std::string>& names, const UnreadColumns& unread) {
  for (const std::string& name : names) {
    const auto reason = unread.find(name);
    if (reason != unread.end()) throw Unsupported(reason->second);
  }
}

std::pair<int64_t, int64_t> Matrix::shape() const { return state_->shape; }
DataType Matrix::value_type() const { return state_->value_type; }
const std::string& Matrix::uri() const { return state_->path; }
uint64_t Matrix::stored_bytes() const { return state_->stored_bytes; }
uint32_t Matrix::fragment_count() const { return state_->fragment_count; }
const std::string& Matrix::layout() const { return state_->layout; }
bool Matrix::addresses_rows() const { return state_->addresses_rows; }
bool Matrix::is_cached(const RowSelection& rows) const { return state_->source()->is_cached(rows); }
void Matrix::expect_rows() const {
  if (state_->stored_by_columns) format::refuse_stored_by_columns(state_->path);
}
bool Matrix::has_fractions() const {
  expect_rows();
  return format::has_fractions(*state_->source());
}
uint64_t Matrix::stored_cells() const { return state_->source()->info().stored_cells; }
uint64_t Matrix::tile_count() const { return state_->source()->info().tile_count; }

Matrix HandleAccess::matrix(std::shared_ptr<const MatrixState> state) {
  return Matrix(std::move(state));
}
const format::StoredTablePtr& HandleAccess::stored(const DataFrame& table) {
  return table.state_->table;
}
DataFrame HandleAccess::table(format::StoredTablePtr table) {
  return DataFrame(std::make_shared<const DataFrame::State>(DataFrame::State{std::move(table)}));
}
Experiment HandleAccess::experiment(format::StoredExperimentPtr stored) {
  return Experiment(
      std::make_shared<const Experiment::State>(Experiment::State{std::move(stored)}));
}
const format::MatrixSourcePtr& HandleAccess::source(const Matrix& matrix) {
  return matrix.state_->source();
}
const RowSelection* HandleAccess::stored_rows(const Matrix& matrix) {
  return matrix.state_->stored_rows();
}

}  // namespace penstock
