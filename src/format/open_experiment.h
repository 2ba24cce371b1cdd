#pragma once

#include <penstock/experiment.h>

#include <string>

#include "format/stored_experiment.h"
#include "io/store.h"

// How Experiment::open asks each format in turn.

namespace penstock::format {

/// A place where something lies: a file, or a folder of any content.
struct ExperimentPlace {
  io::StorePtr store;
  std::string path;
  bool is_file = false;
  std::string inside;  ///< of a file: the group in it, such as "mod/rna"; empty for the whole
};

/// A function for each format. Looks at the content, not at the name. Returns null if the content
/// is not of the format, and throws if it is but cannot be opened.
using OpenExperiment = StoredExperimentPtr (*)(const ExperimentPlace&, const OpenOptions&);

}  // namespace penstock::format
