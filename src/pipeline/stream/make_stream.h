#pragma once

#include <penstock/loader.h>

#include <memory>

#include "format/matrix_source.h"
#include "pipeline/stream/batch_stream.h"

namespace penstock::pipeline {

/// Makes the epoch that the options ask for: row by row if the order is global and the store can
/// address the selected rows, otherwise by units. Throws as the streams do.
std::unique_ptr<BatchStream> make_stream(const format::MatrixSourcePtr& source,
                                         const LoaderOptions& options);

}  // namespace penstock::pipeline
