#pragma once

#include <penstock/experiment.h>

#include "format/open_experiment.h"

namespace penstock::format::soma {

/// Null if the place is no group with the type of a SOMA experiment at the time of `options`.
StoredExperimentPtr open_experiment(const ExperimentPlace& place, const OpenOptions& options);

/// Throws the error of a place that is of no format. NotFound if a SOMA experiment was written
/// there after the time of `options`, else InvalidArgument, which says what lies there.
[[noreturn]] void refuse(const ExperimentPlace& place, const OpenOptions& options);

}  // namespace penstock::format::soma
