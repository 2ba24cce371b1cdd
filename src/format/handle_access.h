#pragma once

#include <penstock/experiment.h>
#include <penstock/kept_rows.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "format/keep/keep_store.h"
#include "format/matrix_source.h"
#include "format/stored_experiment.h"
#include "format/stored_table.h"

// How the library's own files look into public handles and make them.

namespace penstock {

struct HandleAccess {
  using MatrixState = Matrix::State;

  static Matrix matrix(std::shared_ptr<const MatrixState> state);
  static DataFrame table(format::StoredTablePtr table);
  static const format::StoredTablePtr& stored(const DataFrame& table);
  static Experiment experiment(format::StoredExperimentPtr stored);
  static Matrix named(Matrix matrix, std::string_view measurement, std::string_view layer) {
    matrix.measurement_ = measurement;
    matrix.layer_ = layer;
    return matrix;
  }
  /// `made`, with what says which cells it has taken from `of`.
  static Matrix same_cells(Matrix made, const Matrix& of) {
    made.joined_ = of.joined_;
    return named(std::move(made), of.measurement_, of.layer_);
  }
  static Matrix with_joined(Matrix matrix, uint64_t joined) {
    matrix.joined_ = joined;
    return matrix;
  }
  /// A hash of what was joined; 0 for a stored matrix.
  static uint64_t joined(const Matrix& matrix) noexcept { return matrix.joined_; }

  /// The source that the pipeline reads. Loads tile metadata, once.
  static const format::MatrixSourcePtr& source(const Matrix& matrix);
  static const std::shared_ptr<format::KeepStore>& store(const KeptRows& kept);
  /// joinids of the experiment's obs, read once if they have gaps. Null for a matrix without an
  /// experiment.
  static const RowSelection* stored_rows(const Matrix& matrix);
};

}  // namespace penstock
