#include "format/zarr/object_sizes.h"

#include <penstock/error.h>

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "base/threads/parallel.h"

namespace penstock::format::zarr {
namespace {

/// Round trips and calls of a network file system that are under way together.
constexpr unsigned kThreads = 16;

/// Paths that one thread looks at together: about 1 ms of a local disk.
constexpr size_t kBlock = 256;

std::optional<uint64_t> size_of_object(const io::Store& store, const std::string& path) {
  try {
    return store.size_bytes(path);
  } catch (const NotFound&) {
    return std::nullopt;
  }
}

/// The first path of each folder: the question that lists the folder.
std::vector<size_t> first_of_folders(std::span<const std::string> paths) {
  std::vector<size_t> first;
  std::unordered_set<std::string_view> seen;
  for (size_t i = 0; i < paths.size(); ++i) {
    const std::string_view path = paths[i];
    if (seen.insert(path.substr(0, path.rfind('/'))).second) first.push_back(i);
  }
  return first;
}

}  // namespace

std::vector<std::optional<uint64_t>> object_sizes(const io::Store& store,
                                                  std::span<const std::string> paths) {
  std::vector<std::optional<uint64_t>> sizes(paths.size());
  if (store.traits().remote) {
    const std::vector<size_t> first = first_of_folders(paths);
    parallel_for(first.size(), kThreads, [&](size_t i) { store.exists(paths[first[i]]); });
  }
  const size_t blocks = paths.size() / kBlock + 1;
  parallel_for(blocks, kThreads, [&](size_t block) {
    const size_t end = std::min(paths.size(), (block + 1) * kBlock);
    for (size_t i = block * kBlock; i < end; ++i) sizes[i] = size_of_object(store, paths[i]);
  });
  return sizes;
}

}  // namespace penstock::format::zarr
