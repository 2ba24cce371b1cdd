#pragma once

#include "codec/filter_step.h"

// Delta: uint64 number of values | first value | differences, each as wide as a value. The
// arithmetic wraps, so only the width of the type matters. Source: delta_compressor.cc.

namespace penstock::codec {

void decode_delta(FilterStep& step);

/// Bytes of the integers that delta and double delta work on: the reinterpreting type where the
/// filter has one, else the type that it was given. Text and blobs go byte by byte. Floating point
/// is refused by the writer, so here it is `CorruptData`.
size_t delta_element_bytes(const FilterStep& step);

}  // namespace penstock::codec
