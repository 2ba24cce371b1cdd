#pragma once

#include <penstock/row_selection.h>
#include <penstock/storage_options.h>
#include <penstock/table.h>

#include <cstdint>
#include <functional>
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
  /// Reads the state at this time, in milliseconds since 1970; absent: the newest.
  std::optional<uint64_t> timestamp_ms;
  unsigned threads = 0;  ///< for metadata and tables; 0: as many as cores
  StorageOptions storage{};
};

struct ReadOptions {
  std::vector<std::string> columns;     ///< empty: all
  std::string value_filter;             ///< in tiledbsoma's syntax; empty: every row
  std::optional<RowSelection> joinids;  ///< ids of the rows to read; absent: all
};

/// Columns that are stored in a way that is not read, and why, by name.
using UnreadColumns = std::map<std::string, std::string, std::less<>>;

/// obs or var. Rows come in ascending order of ids: of soma_joinid, unless experiments are joined.
class DataFrame {
 public:
  const std::vector<ColumnInfo>& columns() const;
  /// Columns that columns() lacks because they are not read. Naming one is Unsupported.
  const UnreadColumns& unread_columns() const;
  uint64_t row_count()
      const;  ///< exact; reads the joinid column when deletes or overlaps make it necessary
  const std::string& uri() const;
  /// Identifier of the visible content. It changes with each write to the array; copies of the
  /// array have the same one.
  std::string content() const;

  /// Reads only columns that `options` asks for or the filter names.
  /// Throws NotFound for an unknown column (the message lists the columns). Throws InvalidArgument
  /// for a filter that does not parse (the message points at the place).
  Table read(const ReadOptions& options = {}) const;

  /// Ids of the rows that match the filter; all rows if it is empty. The filter may name
  /// `constants` in addition to the stored columns.
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
  /// The names passed to Experiment::x; empty for a matrix of join_matrices.
  const std::string& measurement() const noexcept { return measurement_; }
  const std::string& layer() const noexcept { return layer_; }
  uint64_t stored_bytes() const;
  uint32_t fragment_count() const;
  const std::string& layout() const;  ///< a description for people
  /// Whether any single row can always be read at little cost. True for a pack on a local disk.
  /// False for a cache, which may lack rows, and for remote stores, where each row is a request.
  bool addresses_rows() const;
  /// Whether this is read through a cache that has all of these rows now.
  bool is_cached(const RowSelection& rows) const;
  /// Throws Unsupported, with what to do, for a matrix that is stored by columns (CSC): its rows
  /// cannot be read, but a Packer makes a pack of it.
  void expect_rows() const;
  /// Whether a value of some rows, none of them too large, is no whole number. Reads them; false
  /// for a type of integers. Throws what expect_rows throws.
  bool has_fractions() const;
  uint64_t stored_cells() const;  ///< upper bound of the non-zeros: cells of the tiles
  uint64_t tile_count() const;

 private:
  friend struct HandleAccess;
  struct State;
  explicit Matrix(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
  std::string measurement_, layer_;
  uint64_t joined_ = 0;
};

/// A stored experiment. Immutable, safe from many threads, cheap to copy. Holds no threads and no
/// file descriptors.
class Experiment {
 public:
  /// Opens a SOMA experiment, a pack, or an AnnData in zarr, told by content. Throws NotFound if
  /// nothing is at `uri`, InvalidArgument if it is none of these, and Unsupported for a URI scheme
  /// that this build cannot read.
  static Experiment open(const std::string& uri, const OpenOptions& options = {});

  const std::string& uri() const;
  const OpenOptions& options() const;
  DataFrame obs() const;
  std::vector<std::string> measurements() const;
  DataFrame var(std::string_view measurement) const;
  std::vector<std::string> layers(std::string_view measurement) const;
  /// The layer that is read if the user names none: "raw" of a SOMA experiment, "X" of an AnnData,
  /// or the only layer of the measurement. Throws NotFound, which lists the layers, if there is
  /// none of these.
  std::string default_layer(std::string_view measurement) const;
  Matrix x(std::string_view measurement, std::string_view layer) const;
  /// Group metadata as text, e.g. soma_encoding_version.
  std::map<std::string, std::string> metadata() const;

 private:
  friend struct HandleAccess;
  struct State;
  explicit Experiment(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

}  // namespace penstock
