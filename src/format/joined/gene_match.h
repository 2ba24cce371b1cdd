#pragma once

#include <penstock/join.h>

#include <cstdint>
#include <string>
#include <vector>

#include "format/joined/columns.h"

// Matches the genes of several experiments by name.

namespace penstock::format {

/// Genes of a join, and their places in each experiment.
struct GeneMatch {
  struct Part {
    std::vector<int64_t> joinids;  ///< of its matched genes, ascending
    std::vector<uint32_t> places;  ///< for each of them its column of the join
  };
  std::vector<std::string> names;  ///< in the order of the joined columns
  std::vector<Part> parts;
};

/// Returns the column of names: `wanted`, or the first usual name column that all tables have.
/// Throws NotFound if a table lacks it.
std::string gene_name_column(const std::vector<NamedTable>& var, const std::string& wanted);

/// Matches by the texts in `column`. A gene without a name matches no other. Reads the tables on
/// up to `threads` threads (0: as many as cores). Throws InvalidArgument if names are no texts or
/// not unique, or if an experiment shares no gene with the others or the list.
GeneMatch match_genes(const std::vector<NamedTable>& var, const std::string& column,
                      const JoinOptions& options, unsigned threads);

}  // namespace penstock::format
