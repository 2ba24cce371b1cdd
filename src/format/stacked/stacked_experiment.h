#pragma once

#include <string>
#include <vector>

#include "format/stored_experiment.h"

namespace penstock::format {

/// Several experiments whose row ids are row numbers as one: the cells of the first, then those of
/// the second. Measurements, layers and genes are those of the first. Each other experiment must
/// have as many genes in the layer that is asked for; the names of genes are not compared.
StoredExperimentPtr stack_experiments(std::string uri, OpenOptions options,
                                      std::vector<StoredExperimentPtr> parts);

}  // namespace penstock::format
