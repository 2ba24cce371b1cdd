#pragma once

#include <penstock/row_selection.h>
#include <penstock/storage_options.h>
#include <penstock/table.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock {

struct OpenOptions {
  /// Reads what was visible at this time (milliseconds since the epoch); the newest when absent.
  std::optional<uint64_t> timestamp_ms;
  unsigned threads = 0;  ///< for metadata and tables; 0: as many as cores
  StorageOptions storage{};
};

struct ReadOptions {
  std::vector<std::string> columns;     ///< empty: all
  std::string value_filter;             ///< tiledbsoma's language; empty: every row
  std::optional<RowSelection> joinids;  ///< only these rows
};

/// obs or var: a SOMA DataFrame. Rows come in ascending soma_joinid order.
class DataFrame {
 public:
  const std::vector<ColumnInfo>& columns() const;
  uint64_t row_count()
      const;  ///< exact; reads the joinid column when deletes or overlaps make it necessary
  const std::string& uri() const;
  /// A text of what this shows of the array: another after each write to it, the same for copies.
  std::string content() const;

  /// Only the columns that are asked for or named by the filter are read.
  /// Throws NotFound for an unknown column (the message lists what there is), InvalidArgument for a
  /// filter that does not parse (pointing at the place).
  Table read(const ReadOptions& options = {}) const;

  /// joinids of the rows that a filter keeps; all rows for an empty one. The filter may name
  /// `constants` beside the stored columns.
  RowSelection select(std::string_view value_filter,
                      std::span<const ConstantColumn> constants = {}) const;

 private:
  friend struct HandleAccess;
  struct State;
  explicit DataFrame(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

/// An X layer. Opening reads the schema and footers; tile metadata is read on first use.
class Matrix {
 public:
  std::pair<int64_t, int64_t> shape() const;
  DataType value_type() const;
  const std::string& uri() const;
  uint64_t stored_bytes() const;
  uint32_t fragment_count() const;
  const std::string& layout() const;  ///< for people
  /// Whether any row can be read by itself, always and at little cost: of a pack on a disk. Not of
  /// a cache, which comes to it, nor where a row is a request.
  bool addresses_rows() const;
  /// Whether a cache that this is read through has each of these rows now.
  bool keeps(const RowSelection& rows) const;
  uint64_t stored_cells() const;  ///< most non-zeros that there can be: cells of the tiles
  uint64_t tile_count() const;

 private:
  friend struct HandleAccess;
  struct State;
  explicit Matrix(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

/// A SOMA experiment. Immutable, safe from many threads, cheap to copy; holds no thread and no
/// descriptor.
class Experiment {
 public:
  /// Throws NotFound when nothing is there, InvalidArgument when it is not a SOMA experiment,
  /// Unsupported for a URI scheme that this build does not read.
  static Experiment open(const std::string& uri, const OpenOptions& options = {});

  const std::string& uri() const;
  const OpenOptions& options() const;
  DataFrame obs() const;
  std::vector<std::string> measurements() const;
  DataFrame var(std::string_view measurement) const;
  std::vector<std::string> layers(std::string_view measurement) const;
  Matrix x(std::string_view measurement, std::string_view layer) const;
  /// Group metadata as text, e.g. soma_encoding_version.
  std::map<std::string, std::string> metadata() const;

 private:
  struct State;
  explicit Experiment(std::shared_ptr<const State> state);
  std::shared_ptr<const State> state_;
};

}  // namespace penstock
