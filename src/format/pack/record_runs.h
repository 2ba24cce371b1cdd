#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "format/pack/packed_layer.h"

// Records that are read together, as it pays where they lie.

namespace penstock::format::pack {

/// A read that brings several records: `begin` and `end` are places in the order of the records.
struct RecordRun {
  uint32_t file = 0;
  uint64_t offset = 0;
  uint64_t length = 0;
  size_t begin = 0;
  size_t end = 0;
};

using RowFiles = std::span<const std::shared_ptr<const RowFile>>;

/// Records in the order of files and offsets to reads; records that are at most `gap` bytes apart
/// are read together. Empty ones belong to no run.
std::vector<RecordRun> runs_of(std::span<const RowLocation> sorted, uint64_t gap);

/// The same with the gaps that the files' store is best read with: `local_gap` on a disk; over a
/// network longer ones, as long as little is read for nothing.
std::vector<RecordRun> runs_of(std::span<const RowLocation> sorted, RowFiles files,
                               uint64_t local_gap);

/// Reads each run to its place, which has its length; all at once from a remote store.
void read_runs(std::span<const RecordRun> runs, RowFiles files, std::span<std::byte* const> to);

}  // namespace penstock::format::pack
