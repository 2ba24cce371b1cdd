#include "format/soma/x/decode/row_copy.h"

#include <cstring>
#include <type_traits>

#include "kernel/value_type.h"

namespace penstock::format::soma {
namespace {

constexpr size_t kStep = 32;

// Runs are short (tens of cells), so copying whole steps is faster than memcpy of the exact length.
// Bytes written past the run are overwritten by the next run, and stages have slack to read from.
// Near the record's end the exact length is copied. The next row's run in the same tile usually
// follows, as rows are packed in order, so the bytes behind are prefetched. Thirty tiles at once
// are more streams than the hardware follows.
std::byte* copy_run(const std::byte* from, size_t bytes, std::byte* to, const std::byte* end) {
  const size_t whole = (bytes + kStep - 1) / kStep * kStep;
  for (size_t ahead = 0; ahead < bytes; ahead += 64) __builtin_prefetch(from + bytes + ahead + 64);
  if (whole <= static_cast<size_t>(end - to)) {
    for (size_t i = 0; i < whole; i += kStep) std::memcpy(to + i, from + i, kStep);
  } else {
    std::memcpy(to, from, bytes);
  }
  return to + bytes;
}

}  // namespace

void copy_run_values(const XTileStage& stage, const XRowRun& run,
                     const kernel::PackedRowLayout& layout, std::byte* out) {
  const size_t size = layout.value_bytes;
  const std::byte* wide = stage.wide.data() + size_t{run.wide_begin} * size;
  if (run.wide_count == run.count) {
    if (run.count != 0) std::memcpy(out, wide, run.count * size);
    return;
  }
  visit_number(layout.value_type, [&](auto identity) {
    using Value = typename decltype(identity)::type;
    const auto* codes = reinterpret_cast<const uint8_t*>(stage.codes.data()) + run.begin;
    for (uint32_t i = 0; i < run.count; ++i, out += sizeof(Value)) {
      if (codes[i] == kEscapeCode) {
        std::memcpy(out, wide, sizeof(Value));
        wide += sizeof(Value);
      } else {
        const auto value = static_cast<Value>(codes[i]);
        std::memcpy(out, &value, sizeof(Value));
      }
    }
  });
}

void pack_runs(const XStages& stages, std::span<const XRowRun> runs, uint32_t nnz,
               uint32_t wide_count, const kernel::PackedRowLayout& layout, std::byte* destination) {
  const bool raw = wide_count == kernel::kRawRow;
  const size_t record = layout.record_bytes(nnz, wide_count);
  const std::byte* const end = destination + record;
  const kernel::PackedRowHeader header{nnz, wide_count};
  std::memcpy(destination, &header, sizeof(header));
  std::byte* out = destination + sizeof(header);
  if (raw) {
    for (const XRowRun& run : runs) {
      copy_run_values(stages[run.stage], run, layout, out);
      out += size_t{run.count} * layout.value_bytes;
    }
  } else if (wide_count != 0) {
    for (const XRowRun& run : runs) {
      if (run.wide_count == 0) continue;
      const size_t bytes = size_t{run.wide_count} * layout.value_bytes;
      std::memcpy(out, stages[run.stage].wide.data() + size_t{run.wide_begin} * layout.value_bytes,
                  bytes);
      out += bytes;
    }
  }
  for (const XRowRun& run : runs) {
    out = copy_run(stages[run.stage].indices.data() + size_t{run.begin} * layout.index_bytes,
                   size_t{run.count} * layout.index_bytes, out, end);
  }
  if (!raw) {
    for (const XRowRun& run : runs) {
      const XTileStage& stage = stages[run.stage];
      if (stage.raw) {
        std::memset(out, kEscapeCode, run.count);
        out += run.count;
      } else {
        out = copy_run(stage.codes.data() + run.begin, run.count, out, end);
      }
    }
  }
  std::memset(out, 0, static_cast<size_t>(end - out));
}

}  // namespace penstock::format::soma
