#include "format/soma/x/unit_decode.h"

#include <penstock/error.h>

#include <algorithm>
#include <bit>
#include <string>

#include "base/checked.h"
#include "format/soma/x/decode/row_copy.h"
#include "format/soma/x/decode/row_merge.h"
#include "io/range_coalescing.h"

namespace penstock::format::soma {
namespace {

constexpr uint64_t kTaskCells = uint64_t{1} << 15;  // small tiles share a task
constexpr size_t kMergeRows = 128;

/// Takes a scratch for the duration of a task.
class ScratchLease {
 public:
  explicit ScratchLease(XScratchPool& pool) : pool_(pool), scratch_(pool.take()) {}
  ~ScratchLease() { pool_.give(std::move(scratch_)); }
  ScratchLease(const ScratchLease&) = delete;
  ScratchLease& operator=(const ScratchLease&) = delete;
  XTileScratch& operator*() const noexcept { return *scratch_; }

 private:
  XScratchPool& pool_;
  std::unique_ptr<XTileScratch> scratch_;
};

}  // namespace

std::unique_ptr<XTileScratch> XScratchPool::take() {
  const MutexLock lock(mutex_);
  if (free_.empty()) return std::make_unique<XTileScratch>();
  auto scratch = std::move(free_.back());
  free_.pop_back();
  return scratch;
}

void XScratchPool::give(std::unique_ptr<XTileScratch> scratch) {
  const MutexLock lock(mutex_);
  free_.push_back(std::move(scratch));
}

XUnitDecode::XUnitDecode(std::shared_ptr<const void> keep_alive, const XDecodeContext& context,
                         XScratchPool& scratch_pool)
    : keep_alive_(std::move(keep_alive)), context_(context), scratch_pool_(scratch_pool) {}

void XUnitDecode::start(std::vector<XTileId> tiles, std::vector<int64_t> rows) {
  rows_ = std::move(rows);
  row_map_.assign(rows_);
  tiles_ = std::move(tiles);
  tile_bytes_.assign(tiles_.size(), XTileBytes{});
  for (XTileStage& stage : stages_) stage.clear();
  for (XTileStage& stage : merged_) stage.clear();
  if (stages_.size() < tiles_.size()) stages_.resize(tiles_.size());
  read_count_ = 0;
  bytes_read_ = 0;
  stored_.resize_discard(0);
  make_tile_tasks();
  index_.build(row_count(), {}, true, {});
}

void XUnitDecode::make_tile_tasks() {
  task_begins_.clear();
  uint64_t cells = kTaskCells;
  for (size_t i = 0; i < tiles_.size(); ++i) {
    if (cells >= kTaskCells) {
      task_begins_.push_back(i);
      cells = 0;
    }
    cells += context_.array.fragments()[tiles_[i].fragment].cells(tiles_[i].tile);
  }
}

void XUnitDecode::fetch() {
  const io::Store& store = context_.array.store();
  const io::CoalescingOptions options = store.traits().coalescing;
  std::vector<PartReads> parts;
  for (size_t begin = 0, end = 0; begin < tiles_.size(); begin = end) {
    while (end < tiles_.size() && tiles_[end].fragment == tiles_[begin].fragment) ++end;
    const XFragment& fragment = context_.array.fragments()[tiles_[begin].fragment];
    for (size_t part = 0; part < kXPartCount; ++part) {
      if (fragment.reads(XPart(part))) parts.push_back(plan_part(XPart(part), begin, end, options));
    }
  }
  uint64_t bytes = 0;
  for (const PartReads& part : parts) {
    bytes = checked_add(bytes, part.plan.read_bytes, "stored bytes of a unit");
  }
  // Units differ in size. Memory that none has touched costs nothing.
  if (bytes < PTRDIFF_MAX / 2) stored_.reserve_discard(std::bit_ceil(bytes));
  stored_.resize_discard(bytes);
  std::vector<io::ReadRequest> requests;
  std::byte* next = stored_.data();
  for (const PartReads& part : parts) next = place_reads(part, next, requests);
  read_count_ = requests.size();
  bytes_read_ = bytes;
  store.read_many(requests);
}

/// Groups tiles of one fragment into reads of one of its files.
XUnitDecode::PartReads XUnitDecode::plan_part(XPart part, size_t tile_begin, size_t tile_end,
                                              const io::CoalescingOptions& options) const {
  const XFragment& fragment = context_.array.fragments()[tiles_[tile_begin].fragment];
  PartReads reads{part, tile_begin, {}, {}};
  for (size_t tile = tile_begin; tile < tile_end; ++tile) {
    reads.wanted.push_back(fragment.range(part, tiles_[tile].tile));
  }
  reads.plan = io::coalesce(reads.wanted, options);
  return reads;
}

/// Lets the reads fill memory from `next` on. Returns its end.
std::byte* XUnitDecode::place_reads(const PartReads& part, std::byte* next,
                                    std::vector<io::ReadRequest>& requests) {
  const XFragment& fragment = context_.array.fragments()[tiles_[part.tile_begin].fragment];
  const size_t first = requests.size();
  for (const io::ByteRange& read : part.plan.reads) {
    requests.push_back({fragment.path(part.part), read.offset, {next, read.length}});
    next += read.length;
  }
  for (size_t i = 0; i < part.wanted.size(); ++i) {
    if (part.wanted[i].length == 0) continue;
    const io::CoalescedPiece& piece = part.plan.pieces[i];
    tile_bytes_[part.tile_begin + i].parts[static_cast<size_t>(part.part)] =
        requests[first + piece.read].out.subspan(piece.offset, part.wanted[i].length);
  }
  return next;
}

void XUnitDecode::take_buffers(UnitDecode& finished) {
  if (auto* const other = dynamic_cast<XUnitDecode*>(&finished)) {
    std::swap(stages_, other->stages_);
    std::swap(merged_, other->merged_);
    for (XTileStage& stage : stages_) stage.clear();
    for (XTileStage& stage : merged_) stage.clear();
    if (stages_.size() < tiles_.size()) stages_.resize(tiles_.size());
  }
}

size_t XUnitDecode::task_count(size_t phase) const {
  switch (phase) {
    case 0:
      return task_begins_.size();
    case 1:
      return tiles_.empty() ? 0 : 1;
    case 2:
      return index_.again().size();
    case 3:
      return index_.again().empty() ? 0 : 1;
    default:
      return (index_.merges().size() + kMergeRows - 1) / kMergeRows;
  }
}

void XUnitDecode::run(size_t phase, size_t task) {
  const std::span<const XTileStage> stages(stages_.data(), tiles_.size());
  switch (phase) {
    case 0: {
      const size_t end = task + 1 < task_begins_.size() ? task_begins_[task + 1] : tiles_.size();
      for (size_t tile = task_begins_[task]; tile < end; ++tile) decode_tile(tile);
      return;
    }
    case 1:
    case 3: {
      std::vector<bool> has_timestamps;
      for (const XFragment& fragment : context_.array.fragments()) {
        has_timestamps.push_back(fragment.metadata->has_timestamps());
      }
      index_.build(row_count(), stages, context_.array.allows_duplicates(), has_timestamps);
      const size_t tasks = task_count(4);
      if (merged_.size() < tasks) merged_.resize(tasks);
      return;
    }
    case 2:
      decode_tile_again(index_.again()[task]);
      return;
    default: {
      const auto all = std::span(index_.merges());
      const size_t begin = task * kMergeRows;
      const auto rows = all.subspan(begin, std::min(kMergeRows, all.size() - begin));
      merge_rows(context_, stages, rows, static_cast<uint32_t>(tiles_.size() + task), merged_[task],
                 index_);
    }
  }
}

void XUnitDecode::decode_tile(size_t tile) {
  const ScratchLease scratch(scratch_pool_);
  const auto decode =
      can_decode_runs(context_.array, tiles_[tile]) ? decode_tile_runs : decode_tile_general;
  decode(context_, tiles_[tile], tile_bytes_[tile], row_map_, *scratch, stages_[tile]);
}

void XUnitDecode::decode_tile_again(size_t tile) {
  const XTileId id = tiles_[tile];
  const XFragment& fragment = context_.array.fragments()[id.fragment];
  const io::ByteRange range = fragment.range(XPart::kTimestamps, id.tile);
  Buffer timestamps(range.length);
  context_.array.store().read(fragment.path(XPart::kTimestamps), range.offset, timestamps.span());
  bytes_read_ += range.length;
  XTileBytes bytes = tile_bytes_[tile];
  bytes.parts[static_cast<size_t>(XPart::kTimestamps)] = timestamps.span();
  const ScratchLease scratch(scratch_pool_);
  decode_tile_general(context_, id, bytes, row_map_, *scratch, stages_[tile]);
}

uint64_t XUnitDecode::memory_bytes() const {
  uint64_t bytes = rows_.size() * (sizeof(int64_t) + sizeof(uint32_t)) +
                   tiles_.size() * (sizeof(XTileId) + sizeof(XTileBytes)) + index_.memory_bytes() +
                   stored_.size();
  for (size_t i = 0; i < tiles_.size(); ++i) bytes += stages_[i].memory_bytes();
  for (const XTileStage& stage : merged_) bytes += stage.memory_bytes();
  return bytes;
}

uint32_t XUnitDecode::wide_form(const XRowSummary& row) const {
  const uint64_t size = context_.layout.value_bytes;
  const uint64_t coded = uint64_t{row.wide_count} * size + row.nnz;
  return coded <= row.nnz * size ? row.wide_count : kernel::kRawRow;
}

size_t XUnitDecode::packed_bytes(uint32_t row) const {
  const XRowSummary& summary = index_.row(row);
  return context_.layout.record_bytes(summary.nnz, wide_form(summary));
}

void XUnitDecode::pack(uint32_t row, std::byte* destination) const {
  const XRowSummary& summary = index_.row(row);
  const XStages stages{{stages_.data(), tiles_.size()}, merged_};
  pack_runs(stages, index_.runs(row), summary.nnz, wide_form(summary), context_.layout,
            destination);
}

}  // namespace penstock::format::soma
