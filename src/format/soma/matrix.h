#pragma once

#include <penstock/experiment.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/threads/lazy.h"
#include "format/matrix_source.h"
#include "format/tiledb/directory/timestamped_name.h"
#include "format/tiledb/schema/array_schema.h"
#include "io/store.h"

// State that a Matrix handle shares: facts from schema and footers, read when it is made, and the
// source that the pipeline reads cells from, made on first use.

namespace penstock {

struct Matrix::State {
  /// Where cells and row joinids come from, for a matrix that is not one stored array.
  struct Origin {
    std::function<format::MatrixSourcePtr()> source;
    std::function<std::optional<RowSelection>()> stored_rows;
  };

  explicit State(Origin origin_in) : origin(std::move(origin_in)) {}

  /// Throws `Unsupported` for an array that is not two-dimensional with int64 coordinates.
  /// `rows_in`: the table of the matrix's rows, if known.
  State(io::StorePtr store_in, std::string path_in, format::tiledb::TimeRange range_in,
        unsigned threads_in, std::optional<DataFrame> rows_in = std::nullopt);

  io::StorePtr store;
  std::string path;
  format::tiledb::TimeRange range;
  unsigned threads = 0;

  std::pair<int64_t, int64_t> shape;
  DataType value_type = DataType::kFloat32;
  uint64_t stored_bytes = 0;
  uint32_t fragment_count = 0;
  std::string layout;
  bool addresses_rows = false;
  std::optional<DataFrame> rows;
  Origin origin;

  const std::shared_ptr<const format::MatrixSource>& source() const;
  /// joinids of the rows that exist; null if no table tells. Read once.
  const RowSelection* stored_rows() const;

 private:
  Lazy<std::shared_ptr<const format::MatrixSource>> source_;
  Lazy<std::optional<RowSelection>> stored_rows_;
};

}  // namespace penstock
