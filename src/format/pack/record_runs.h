#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "format/pack/packed_layer.h"

// Groups records into reads as the store needs it.

namespace penstock::format::pack {

/// A read of several records. `begin` and `end` are indices into the sorted records.
struct RecordRun {
  uint32_t file = 0;
  uint64_t offset = 0;
  uint64_t length = 0;
  size_t begin = 0;
  size_t end = 0;
};

using RowFiles = std::span<const std::shared_ptr<const RowFile>>;

/// Turns records, sorted by file and offset, into reads. Records at most `gap` bytes apart are read
/// together. Empty records belong to no run.
std::vector<RecordRun> runs_of(std::span<const RowLocation> sorted, uint64_t gap);

/// The same with the best gap for the files' store: `local_gap` on a disk. Over a network the gap
/// is larger, as long as few bytes are read in vain.
std::vector<RecordRun> runs_of(std::span<const RowLocation> sorted, RowFiles files,
                               uint64_t local_gap);

/// Reads each run into its buffer, which has its length. From a remote store all at once.
void read_runs(std::span<const RecordRun> runs, RowFiles files, std::span<std::byte* const> to);

}  // namespace penstock::format::pack
