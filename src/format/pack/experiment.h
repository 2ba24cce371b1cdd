#pragma once

#include <penstock/experiment.h>

#include "format/open_experiment.h"

namespace penstock::format::pack {

/// Null if the place has no pack.json.
StoredExperimentPtr open_experiment(const ExperimentPlace& place, const OpenOptions& options);

}  // namespace penstock::format::pack
