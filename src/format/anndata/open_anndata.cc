#include "format/anndata/open_anndata.h"

#include <penstock/error.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <span>
#include <utility>

#include "base/concat.h"
#include "base/threads/parallel.h"
#include "format/anndata/anndata_experiment.h"
#include "format/anndata/elements.h"
#include "format/anndata/mudata.h"
#include "format/anndata/tenx.h"
#include "format/hdf5/hierarchy.h"
#include "format/stacked/stacked_experiment.h"
#include "format/zarr/hierarchy.h"
#include "io/zip/zip_store.h"

namespace penstock::format::anndata {
namespace {

/// First bytes of a zip archive: PKWARE's APPNOTE, 4.3.7.
constexpr std::string_view kZipSignature = "PK\x03\x04";

std::string first_bytes(const io::Store& store, const std::string& path) {
  std::string bytes(std::min<uint64_t>(store.size_bytes(path), kZipSignature.size()), '\0');
  store.read(path, 0, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

/// The datasets of a collection, by number: dataset_10 comes after dataset_9.
std::vector<std::string> datasets_of(const chunked::Group& root) {
  constexpr std::string_view kPrefix = "dataset_";
  std::vector<std::pair<uint64_t, std::string>> numbered;
  for (const std::string& name : root.members()) {
    if (!name.starts_with(kPrefix)) continue;
    uint64_t number = 0;
    const char* const end = name.data() + name.size();
    const auto parsed = std::from_chars(name.data() + kPrefix.size(), end, number);
    if (parsed.ec == std::errc() && parsed.ptr == end) numbered.emplace_back(number, name);
  }
  std::sort(numbered.begin(), numbered.end());
  std::vector<std::string> names;
  names.reserve(numbered.size());
  for (auto& [number, name] : numbered) {
    // annbatch numbers them from 0, so a gap is a copy that was interrupted.
    if (number != names.size()) {
      throw CorruptData(concat("the collection has ", name, ", but ",
                               number < names.size() ? "not only one of that number"
                                                     : concat("no dataset_", names.size()),
                               "; copy it again, in ", root.path()));
    }
    names.push_back(std::move(name));
  }
  return names;
}

StoredExperimentPtr open_collection(const chunked::GroupPtr& root, const std::string& path,
                                    const OpenOptions& options) {
  expect_known_encoding(root->attributes(), path);
  const auto names = datasets_of(*root);
  if (names.empty()) throw CorruptData("the collection has no dataset, in " + path);
  std::vector<StoredExperimentPtr> parts(names.size());
  parallel_for(names.size(), options.threads, [&](size_t i) {
    const auto group = root->group(names[i]);
    if (!group) throw CorruptData("there is no dataset " + names[i] + ", in " + path);
    parts[i] = make_experiment(group, io::join(path, names[i]), options);
  });
  return stack_experiments(path, options, std::move(parts));
}

/// What a container holds. Null if it is nothing that is read.
StoredExperimentPtr open_root(const chunked::GroupPtr& root, const std::string& path,
                              const OpenOptions& options) {
  if (is_collection(*root)) return open_collection(root, path, options);
  if (is_mudata(*root)) return open_mudata(root, path, options);
  if (is_anndata(*root)) return make_experiment(root, path, options);
  if (auto tenx = open_tenx(root)) return make_experiment(std::move(tenx), path, options);
  return nullptr;
}

/// The group that a path names inside of a file: "mod/rna", or as mudata.read takes it "rna".
chunked::GroupPtr open_inside(const chunked::Group& root, const std::string& inside) {
  if (auto group = root.group(inside)) return group;
  if (auto group = root.group("mod/" + inside)) return group;
  throw NotFound("there is no group '" + inside + "', in " + root.path());
}

/// Members that are looked up at a time; threads that wait for a network.
constexpr unsigned kAhead = 16;

/// Looks up the elements that an experiment needs, side by side, so that the metadata of a remote
/// file, which lie all over it, are in its cache. Errors of what is stored come again where an
/// element is needed; those of the network are not waited for a second time.
void look_ahead(const chunked::Group& root) {
  static constexpr const char* kNeeded[] = {"obs", "var", "X", "layers", "raw/X", "raw/var"};
  parallel_for(std::size(kNeeded), kAhead, [&](size_t i) {
    try {
      const auto group = root.group(kNeeded[i]);
      if (!group) return;
      const auto names = group->members();
      parallel_for(names.size(), kAhead, [&](size_t k) {
        try {
          if (group->array(names[k])) return;
          const auto inner = group->group(names[k]);  // categories, or a sparse layer
          for (const std::string& name : inner ? inner->members() : std::vector<std::string>()) {
            inner->array(name);
          }
        } catch (const IoError&) {
          throw;
        } catch (const Error&) {
        }
      });
    } catch (const IoError&) {
      throw;
    } catch (const Error&) {
    }
  });
}

/// The root group of a file or folder. Null for a folder that is no zarr group.
chunked::GroupPtr open_container(const ExperimentPlace& place) {
  if (!place.is_file) {
    auto root = zarr::open_zarr(place.store, place.path);
    if (!root && zarr::is_zarr_array(*place.store, place.path)) {
      throw InvalidArgument(
          "a zarr array, not a group: give the folder of the AnnData that it is part of, " +
          place.path);
    }
    return root;
  }
  const std::string begin = first_bytes(*place.store, place.path);
  if (begin.starts_with(kZipSignature)) {
    if (auto root = zarr::open_zarr(io::open_zip(place.store, place.path), place.path)) return root;
    throw InvalidArgument(
        "a zip archive without a zarr group at its top; zip what is in the folder of the store, "
        "not the folder: " +
        place.path);
  }
  if (auto root = hdf5::open_hdf5(place.store, place.path)) {
    if (place.store->traits().remote) look_ahead(*root);
    return root;
  }
  throw InvalidArgument(
      (begin.empty()
           ? "the file is empty: "
           : "the file is neither HDF5 (h5ad, h5mu, 10x .h5) nor a zip archive of a zarr store: ") +
      place.path);
}

}  // namespace

StoredExperimentPtr open_experiment(const ExperimentPlace& place, const OpenOptions& options) {
  auto root = open_container(place);
  if (!root) return nullptr;
  std::string path = place.path;
  if (!place.inside.empty()) {
    root = open_inside(*root, place.inside);
    path = root->path();
  }
  if (auto opened = open_root(root, path, options)) return opened;
  expect_known_encoding(root->attributes(), path);
  throw InvalidArgument(
      "neither an AnnData (with obs and var), a MuData (with mod), a collection of annbatch nor "
      "counts of 10x Cell Ranger (with matrix/barcodes): " +
      path);
}

}  // namespace penstock::format::anndata
