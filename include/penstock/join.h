#pragma once

#include <penstock/experiment.h>

#include <cstdint>
#include <string>
#include <vector>

namespace penstock {

/// A matrix to be joined with others.
struct JoinPart {
  Matrix matrix;
  int64_t row_offset = 0;                ///< added to its joinids; a multiple of 2^32
  int64_t row_end = 0;                   ///< exclusive upper bound of its joinids
  std::vector<int64_t> columns;          ///< joinids of its columns that are joined, ascending
  std::vector<uint32_t> joined_columns;  ///< for each of `columns` its joined column; distinct
};

/// Joins several matrices into one of `column_count` columns, so that one Loader can read them. Its
/// shuffle, memory and ranks apply to the rows of all parts. Row ids are joinid + row_offset. A
/// column that a part lacks is zero in its rows. The value type holds the values of all parts.
///
/// Throws InvalidArgument if there are no parts. If rows overlap or columns do not fit, the first
/// use of the result throws InvalidArgument.
Matrix join_matrices(std::vector<JoinPart> parts, int64_t column_count);

/// An experiment to be joined with others.
struct JoinExperiment {
  Experiment experiment;
  std::string name;                 ///< in the source column of obs; not empty, and unique
  std::string measurement = "RNA";  ///< the measurement to join
  std::string layer = {};           ///< its layer; empty: the default layer
};

/// Which genes a join has.
enum class JoinGenes : uint8_t {
  kInner,   ///< genes of all experiments, in the order of the first
  kOuter,   ///< genes of any experiment, in order of first appearance
  kListed,  ///< JoinOptions::gene_names, in their order
};

struct JoinOptions {
  JoinGenes genes = JoinGenes::kInner;
  std::vector<std::string> gene_names = {};  ///< for kListed
  /// Column of var with the names by which genes are matched. Empty: the first usual name column
  /// that all experiments have (var_names, var_id, feature_id, …).
  std::string var_column = {};
  std::string source_column = "source";  ///< added to obs: the name of each cell's experiment
};

/// Joins several experiments into one: the cells of all, with matched genes, in any formats.
///
///   const auto joined = join_experiments({{Experiment::open("a"), "ours"},
///                                         {Experiment::open("b.zarr"), "atlas"}});
///   const std::string measurement = joined.measurements()[0];
///   Loader loader(joined.x(measurement, joined.default_layer(measurement)),
///                 {.rows = joined.obs().select("source == 'ours'")});
///
/// The join has one measurement with one layer. It has their common name, or else "joined". A gene
/// that an experiment lacks is zero in its cells. A gene without a name is left out. A gene of
/// `gene_names` that no experiment has is a column of zeros.
///
/// obs has the cells of the first experiment, then those of the second. The row id of a cell (in
/// RowSelection, ReadOptions::joinids and Batch::joinids) is its soma_joinid plus the offset of its
/// experiment. Offsets are multiples of 2^32; the first is 0. The column soma_joinid is the id in
/// the cell's own experiment. A filter is applied by each experiment to its own columns, and may
/// also name the source column and columns that only other experiments have.
///
/// The row id of a gene, and its soma_joinid, is its column of X. Its other values come from the
/// first experiment that has both the gene and the column. A filter of var keeps genes that pass it
/// in any experiment.
///
/// Columns of the same name become one. Categories are merged in order of first appearance. Numbers
/// get a type that holds all. Rows of an experiment without the column are null.
///
/// Throws InvalidArgument if experiments share no gene, if gene names are not unique, and for parts
/// or options that do not fit. Throws NotFound for a measurement, layer or column that does not
/// exist. Reading a column of, say, strings in one experiment and numbers in another throws
/// InvalidArgument. A join cannot be joined again or packed.
Experiment join_experiments(std::vector<JoinExperiment> experiments,
                            const JoinOptions& options = {});

}  // namespace penstock
