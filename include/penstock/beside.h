#pragma once

#include <penstock/experiment.h>

#include <vector>

namespace penstock {

/// Puts matrices with the same rows beside one another, so that one Loader reads them: columns are
/// those of the first, then those of the second, and so on. A row that a matrix does not have is
/// empty there. The value type holds the values of all (numpy's promotion).
/// LoaderOptions::parts gives each of them an array of its own in a batch.
///
///   const Matrix both = beside({experiment.x("RNA", "raw"), experiment.x("ATAC", "peaks")});
///
/// Throws InvalidArgument if there are no matrices or too many columns.
Matrix beside(std::vector<Matrix> matrices);

}  // namespace penstock
