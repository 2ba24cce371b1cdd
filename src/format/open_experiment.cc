#include "format/open_experiment.h"

#include <penstock/error.h>

#include <string_view>

#include "format/anndata/open_anndata.h"
#include "format/handle_access.h"
#include "format/pack/experiment.h"
#include "format/soma/experiment.h"
#include "format/tiledb/directory/prefetch.h"
#include "io/storage_options.h"
#include "io/whole_files.h"

namespace penstock {
namespace {

/// The formats, in the order in which they are asked. A new format is a line here.
constexpr format::OpenExperiment kFormats[] = {
    format::soma::open_experiment,
    format::pack::open_experiment,
    format::anndata::open_experiment,
};

/// Whether the name of a remote place says zarr. Below it may lie 10^5 chunks, so it is not listed
/// ahead. The content decides what it is.
bool named_zarr(const format::ExperimentPlace& place) {
  return place.store->traits().remote && place.path.ends_with(".zarr");
}

/// Takes what the name of a remote path says is a file, such as cells.h5ad or cells.h5mu/mod/rna,
/// if it is one. So nothing is listed for it.
void take_named_file(format::ExperimentPlace& place) {
  if (!place.store->traits().remote) return;
  for (const std::string_view ending : io::kWholeFileEndings) {
    for (size_t at = place.path.find(ending); at != std::string::npos;
         at = place.path.find(ending, at + 1)) {
      const size_t end = at + ending.size();
      if (end != place.path.size() && place.path[end] != '/') continue;
      const std::string file = place.path.substr(0, end);
      if (!place.store->exists(file)) continue;
      place.is_file = true;
      place.inside = end == place.path.size() ? "" : place.path.substr(end + 1);
      place.path = file;
      return;
    }
  }
}

/// A path such as "cells.h5mu/mod/rna", that starts with a file.
bool find_file_above(format::ExperimentPlace& place) {
  for (size_t end = place.path.rfind('/'); end != std::string::npos && end > 0;
       end = place.path.rfind('/', end - 1)) {
    const std::string above = place.path.substr(0, end);
    if (above.back() == '/' || place.store->is_directory(above)) return false;
    if (!place.store->exists(above)) continue;
    place.is_file = true;
    place.inside = place.path.substr(end + 1);
    place.path = above;
    return true;
  }
  return false;
}

/// Finds whether a place is a file, or lies within one. Throws NotFound if there is neither.
void find_kind(format::ExperimentPlace& place) {
  if (!place.is_file && !named_zarr(place)) {
    format::tiledb::prefetch_metadata(*place.store, place.path);
  }
  // A folder is what is asked for most, and its list is needed anyway. Whether a file is there, a
  // remote store only knows from a list of the folder above.
  if (place.is_file || place.store->is_directory(place.path)) return;
  place.is_file = place.store->exists(place.path);
  if (!place.is_file && !find_file_above(place)) {
    throw NotFound("there is nothing at " + place.path);
  }
}

}  // namespace

Experiment Experiment::open(const std::string& uri, const OpenOptions& options) {
  format::ExperimentPlace place{io::store_for(uri, options.storage), io::normalize(uri), false, {}};
  take_named_file(place);
  try {
    find_kind(place);
  } catch (const Unsupported&) {  // of a web server without an index
    if (!io::is_named_whole_file(place.path)) throw;
    throw NotFound("there is no file at " + place.path);
  }
  for (const format::OpenExperiment open_format : kFormats) {
    if (auto stored = open_format(place, options)) {
      return HandleAccess::experiment(std::move(stored));
    }
  }
  format::soma::refuse(place, options);
}

}  // namespace penstock
