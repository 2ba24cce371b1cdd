#pragma once

#include "codec/tile/filter_step.h"

// Delta: uint64 number of values | first value | differences, each as wide as a value. The
// arithmetic wraps, so only the width of the type matters. Source: delta_compressor.cc.

namespace penstock::codec {

void decode_delta(FilterStep& step);

/// Bytes of the integers that delta and double delta work on: of the filter's reinterpreting type
/// if it has one, else of the type that it was given; 1 for text and blobs. Writers refuse floating
/// point, so here it is `CorruptData`.
size_t delta_element_bytes(const FilterStep& step);

}  // namespace penstock::codec
