#include "pipeline/stream/make_stream.h"

#include <penstock/error.h>

#include <utility>
#include <variant>

#include "pipeline/stream/epoch_stream.h"
#include "pipeline/stream/row_stream.h"

namespace penstock::pipeline {
namespace {

std::unique_ptr<EpochStream> by_units(const format::MatrixSource& source, StreamSetup setup,
                                      const LoaderOptions& options) {
  return std::make_unique<EpochStream>(make_epoch_setup(source, std::move(setup), options),
                                       options);
}

/// The stream that reads units and keeps every row; null if they do not all fit in memory.
std::unique_ptr<EpochStream> keeping_all(const format::MatrixSource& source,
                                         const StreamSetup& setup, const LoaderOptions& options) {
  if (setup.keep == nullptr) return nullptr;
  try {
    EpochSetup epoch = make_epoch_setup(source, setup, options);
    if (epoch.budget.keep_room == 0) return nullptr;
    return std::make_unique<EpochStream>(std::move(epoch), options);
  } catch (const ResourceExhausted&) {
    return nullptr;  // too little memory to read units
  }
}

/// For a global order of a remote pack, where each row is a request but units can be read, too:
/// returns the stream that needs less of the network. The order is the same.
std::unique_ptr<BatchStream> cheaper(const format::MatrixSource& source, format::RowReaderPtr rows,
                                     const StreamSetup& setup, const LoaderOptions& options) {
  const uint64_t row_bytes = rows->request_bytes();
  auto stream = std::make_unique<RowStream>(source, std::move(rows), setup, options);
  try {
    auto units = by_units(source, setup, options);
    const uint64_t row_count = stream->row_count() - stream->row_count_before();
    if (units->planned_bytes_read() <= row_count * row_bytes) return units;
  } catch (const ResourceExhausted&) {
    // Too little memory to read units.
  }
  return stream;
}

/// Returns the stream that takes every row from memory; null if that leaves too little of it.
std::unique_ptr<BatchStream> by_kept_rows(const format::MatrixSource& source,
                                          format::RowReaderPtr rows, StreamSetup setup,
                                          const LoaderOptions& options) {
  const uint64_t kept = setup.keep->kept_bytes();
  if (kept >= setup.request.memory_budget) return nullptr;
  setup.request.memory_budget -= kept;
  try {
    return std::make_unique<RowStream>(source, std::move(rows), setup, options);
  } catch (const ResourceExhausted&) {
    return nullptr;  // another loader with more memory has filled it: units are read instead
  }
}

}  // namespace

std::unique_ptr<BatchStream> make_stream(const format::MatrixSourcePtr& source,
                                         const LoaderOptions& options) {
  StreamSetup setup = make_stream_setup(source, options);
  auto kept = setup.keep != nullptr ? setup.keep->kept_rows() : nullptr;
  setup.all_kept = kept != nullptr;
  if (std::holds_alternative<GlobalShuffle>(options.order)) {
    if (kept != nullptr) {
      if (auto stream = by_kept_rows(*source, std::move(kept), setup, options)) return stream;
    }
    if (auto rows = setup.reader->row_reader(setup.rows)) {
      if (rows->prefers_kept()) {
        if (auto stream = keeping_all(*source, setup, options)) return stream;
      }
      if (rows->request_bytes() != 0) return cheaper(*source, std::move(rows), setup, options);
      return std::make_unique<RowStream>(*source, std::move(rows), setup, options);
    }
  }
  return by_units(*source, std::move(setup), options);
}

}  // namespace penstock::pipeline
