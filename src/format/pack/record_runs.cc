#include "format/pack/record_runs.h"

#include <algorithm>

#include "io/range_coalescing.h"
#include "io/store.h"

namespace penstock::format::pack {

std::vector<RecordRun> runs_of(std::span<const RowLocation> sorted, uint64_t gap) {
  std::vector<RecordRun> runs;
  for (size_t i = 0; i < sorted.size(); ++i) {
    const RowLocation& row = sorted[i];
    if (row.place.length == 0) continue;
    if (runs.empty() || runs.back().file != row.file ||
        row.place.offset > runs.back().offset + runs.back().length + gap) {
      runs.push_back({row.file, row.place.offset, row.place.length, i, i + 1});
      continue;
    }
    RecordRun& run = runs.back();
    run.length = std::max(run.length, row.place.offset + row.place.length - run.offset);
    run.end = i + 1;
  }
  return runs;
}

namespace {

/// Runs of the records [begin, end), all of one file.
void add_runs(std::span<const RowLocation> sorted, size_t begin, size_t end,
              const io::CoalescingOptions& options, std::vector<RecordRun>& runs) {
  std::vector<io::ByteRange> wanted;
  std::vector<size_t> places;
  for (size_t i = begin; i < end; ++i) {
    if (sorted[i].place.length == 0) continue;
    wanted.push_back({sorted[i].place.offset, sorted[i].place.length});
    places.push_back(i);
  }
  const io::CoalescedReads merged = io::coalesce(wanted, options);
  const size_t first = runs.size();
  for (const io::ByteRange& read : merged.reads) {
    runs.push_back({sorted[begin].file, read.offset, read.length, 0, 0});
  }
  for (size_t i = 0; i < places.size(); ++i) {
    RecordRun& run = runs[first + merged.pieces[i].read];
    if (run.end == 0) run.begin = places[i];
    run.end = places[i] + 1;
  }
}

}  // namespace

std::vector<RecordRun> runs_of(std::span<const RowLocation> sorted, RowFiles files,
                               uint64_t local_gap) {
  if (files.empty() || !files.front()->remote()) return runs_of(sorted, local_gap);
  const io::CoalescingOptions options = files.front()->store().traits().coalescing;
  std::vector<RecordRun> runs;
  for (size_t begin = 0; begin < sorted.size();) {
    size_t end = begin + 1;
    while (end < sorted.size() && sorted[end].file == sorted[begin].file) ++end;
    add_runs(sorted, begin, end, options, runs);
    begin = end;
  }
  return runs;
}

void read_runs(std::span<const RecordRun> runs, RowFiles files, std::span<std::byte* const> to) {
  if (runs.empty()) return;
  if (!files[runs.front().file]->remote()) {
    for (size_t i = 0; i < runs.size(); ++i) {
      files[runs[i].file]->read(runs[i].offset, {to[i], runs[i].length});
    }
    return;
  }
  std::vector<io::ReadRequest> reads;
  for (size_t i = 0; i < runs.size(); ++i) {
    reads.push_back({files[runs[i].file]->path(), runs[i].offset, {to[i], runs[i].length}});
  }
  files[runs.front().file]->store().read_many(reads);
}

}  // namespace penstock::format::pack
