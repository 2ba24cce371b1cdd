#pragma once

#include <penstock/data_type.h>
#include <penstock/experiment.h>
#include <penstock/table.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

// An experiment made of arrays that the caller has in memory, such as an AnnData object.
//
//   MemoryExperiment cells{.uri = "my cells", .obs = columns, .obs_count = 1000};
//   cells.measurements.push_back({"RNA", genes, 2000, {{"X", CsrInMemory{…}}}});
//   Experiment experiment = open_in_memory(std::move(cells));
//
// Matrices are read in place: nothing is copied, so the arrays must stay as they are while they are
// read. Ids are checked each time a row is read. Any row is read at little cost, so a shuffle is
// exactly uniform. Row ids (soma_joinid) are row numbers.

namespace penstock {

/// An array in memory, and what keeps it there.
struct MemoryArray {
  DataType type = DataType::kFloat32;
  const std::byte* data = nullptr;
  uint64_t count = 0;
  std::shared_ptr<const void> owner;
};

/// Rows and columns of the stored matrix that are shown, in this order.
struct MemoryView {
  std::vector<int64_t> rows;     ///< read unless all_rows
  std::vector<int64_t> columns;  ///< read unless all_columns
  bool all_rows = true;
  bool all_columns = true;
};

/// `indices` are integers of any width, `indptr` int32 or int64 and rows + 1 of them. Rows need not
/// be sorted. Duplicates stay in CSR batches and are summed in dense ones.
struct CsrInMemory {
  MemoryArray data, indices, indptr;
  uint64_t rows = 0, columns = 0;
  MemoryView view;
};

/// Cell (r, c) is at data + r * row_stride + c * column_stride, in bytes.
struct DenseInMemory {
  MemoryArray data;
  uint64_t rows = 0, columns = 0;
  int64_t row_stride = 0, column_stride = 0;
  MemoryView view;
};

using MatrixInMemory = std::variant<CsrInMemory, DenseInMemory>;

struct MemoryMeasurement {
  std::string name;
  std::vector<Column> var;
  uint64_t var_count = 0;
  std::vector<std::pair<std::string, MatrixInMemory>> layers;  ///< the first is the default
  UnreadColumns var_unread = {};  ///< names of columns that are left out, and why
};

struct MemoryExperiment {
  std::string uri;  ///< for people
  std::vector<Column> obs;
  uint64_t obs_count = 0;
  std::vector<MemoryMeasurement> measurements;
  UnreadColumns obs_unread = {};
};

/// Throws InvalidArgument if arrays, views and tables contradict each other, and Unsupported for
/// types that are no numbers.
Experiment open_in_memory(MemoryExperiment cells);

}  // namespace penstock
