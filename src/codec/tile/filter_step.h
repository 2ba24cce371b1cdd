#pragma once

#include <penstock/data_type.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/byte_reader.h"
#include "base/memory/buffer.h"
#include "codec/tile/filter_config.h"

// One filter in reverse over one chunk. Every filter of this folder has the interface
//
//   void decode_<filter>(FilterStep& step);
//
// A chunk is a pair (metadata, data). When writing, a filter puts its own metadata before the
// metadata that it gets. In reverse it reads its own from the front of `step.metadata`. Then it
// passes the rest on (pass_metadata). Compressors make new metadata instead (make_metadata),
// because they had put earlier metadata into their data. The same for data: pass_data or make_data.
//
// make_data and make_metadata return memory of the thread's scratch. For the first filter of a
// pipeline they return the caller's output, whose size is checked: if the filter would make another
// number of bytes, CorruptData is thrown before anything is written.
//
// Used by one thread, for one call.

namespace penstock::codec {

/// Destination of a step's bytes.
struct StepTarget {
  Buffer* buffer = nullptr;
  std::optional<std::span<std::byte>> fixed;  ///< used instead of `buffer` if set
  uint64_t limit = 0;                         ///< more bytes than this are implausible
};

class FilterStep {
 public:
  FilterStep(const FilterConfig& step_config, DataType step_type, uint64_t step_cell_bytes,
             uint32_t step_format_version, std::span<const std::byte> step_metadata,
             std::span<const std::byte> step_data, StepTarget data_target,
             StepTarget metadata_target)
      : config(step_config),
        type(step_type),
        cell_bytes(step_cell_bytes),
        format_version(step_format_version),
        metadata(step_metadata),
        data(step_data),
        data_target_(data_target),
        metadata_target_(metadata_target) {}

  const FilterConfig& config;
  const DataType type;        ///< of the elements that the filter got when it wrote
  const uint64_t cell_bytes;  ///< of a whole cell of the tile; for RLE
  const uint32_t format_version;

  ByteReader metadata;
  std::span<const std::byte> data;

  std::span<std::byte> make_data(uint64_t size) {
    const auto bytes = make(data_target_, size, "data");
    data_result_ = bytes;
    return bytes;
  }
  std::span<std::byte> make_metadata(uint64_t size) {
    const auto bytes = make(metadata_target_, size, "metadata");
    metadata_result_ = bytes;
    return bytes;
  }
  void pass_data() { data_result_ = data; }
  void pass_metadata() { metadata_result_ = metadata.take(metadata.remaining(), "metadata"); }

  std::span<const std::byte> data_result() const noexcept { return data_result_; }
  std::span<const std::byte> metadata_result() const noexcept { return metadata_result_; }

 private:
  std::span<std::byte> make(StepTarget& target, uint64_t size, std::string_view what) const;

  StepTarget data_target_;
  StepTarget metadata_target_;
  std::span<const std::byte> data_result_;
  std::span<const std::byte> metadata_result_;
};

/// Throws Unsupported, with what to do, for filters that Penstock cannot undo. Throws CorruptData
/// for filters that are invalid for cells of fixed length.
void expect_readable(FilterType type);

/// Runs the filter that `step.config` names.
void run_step(FilterStep& step);

}  // namespace penstock::codec
