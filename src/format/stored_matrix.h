#pragma once

#include <penstock/experiment.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "base/threads/lazy.h"
#include "format/matrix_source.h"

// State that a Matrix handle shares, in any format: facts, known when it is made, and the source
// that the pipeline reads cells from, made on first use.

namespace penstock {

struct Matrix::State {
  /// Functions that a format gives. Each is called once, on first use, by any thread.
  struct Origin {
    std::function<format::MatrixSourcePtr()> source;
    /// joinids of the rows that exist; nothing if no table tells.
    std::function<std::optional<RowSelection>()> stored_rows;
  };

  explicit State(Origin origin_in) : origin(std::move(origin_in)) {}

  std::string path;
  std::pair<int64_t, int64_t> shape;
  DataType value_type = DataType::kFloat32;
  uint64_t stored_bytes = 0;
  uint32_t fragment_count = 0;
  std::string layout;
  bool addresses_rows = false;
  bool stored_by_columns = false;  ///< as in format::MatrixInfo
  Origin origin;

  const format::MatrixSourcePtr& source() const {
    return source_.get([this] { return origin.source(); });
  }
  /// Null if no table tells which rows exist.
  const RowSelection* stored_rows() const {
    const auto& stored = stored_rows_.get([this] { return origin.stored_rows(); });
    return stored ? &*stored : nullptr;
  }

 private:
  Lazy<format::MatrixSourcePtr> source_;
  Lazy<std::optional<RowSelection>> stored_rows_;
};

}  // namespace penstock
