#pragma once

#include <penstock/experiment.h>

#include <memory>
#include <utility>

#include "format/matrix_source.h"

// What the files of the library see of public handles, and how they make them.

namespace penstock {

struct HandleAccess {
  using MatrixState = Matrix::State;
  using TableState = DataFrame::State;

  static Matrix matrix(std::shared_ptr<const MatrixState> state) {
    return Matrix(std::move(state));
  }
  static DataFrame table(std::shared_ptr<const TableState> state) {
    return DataFrame(std::move(state));
  }

  /// Where the pipeline reads cells; loads tile metadata, once.
  static const std::shared_ptr<const format::MatrixSource>& source(const Matrix& matrix);
  /// joinids of the experiment's obs, read once when there are gaps among them; null for a matrix
  /// without an experiment.
  static const RowSelection* stored_rows(const Matrix& matrix);
};

}  // namespace penstock
