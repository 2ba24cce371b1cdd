#pragma once

#include "codec/tile/filter_step.h"

// Shared by the shuffles and XOR: metadata are uint32 parts | uint32 bytes a part, and data keep
// their size.

namespace penstock::codec {

/// Undoes one part; both spans have the same size.
using PartTransform = void (*)(const FilterStep& step, std::span<const std::byte> in,
                               std::span<std::byte> out);

/// Runs `transform` over the parts and passes the rest of the metadata on.
void transform_parts(FilterStep& step, PartTransform transform);

}  // namespace penstock::codec
