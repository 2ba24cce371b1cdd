#include "pipeline/make_stream.h"

#include <utility>

#include "pipeline/epoch_stream.h"
#include "pipeline/row_stream.h"

namespace penstock::pipeline {

std::unique_ptr<BatchStream> make_stream(const format::MatrixSourcePtr& source,
                                         const LoaderOptions& options) {
  StreamSetup setup = make_stream_setup(*source, options);
  if (options.global_shuffle) {
    if (auto rows = setup.reader->row_reader(setup.rows)) {
      return std::make_unique<RowStream>(*source, std::move(rows), setup, options);
    }
  }
  return std::make_unique<EpochStream>(
      *source, make_epoch_setup(*source, std::move(setup), options), options);
}

}  // namespace penstock::pipeline
