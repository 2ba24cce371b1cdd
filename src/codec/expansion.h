#pragma once

#include <cstdint>
#include <span>

#include "codec/filter_config.h"

// How many bytes a filter can make of one stored byte at most. A length from a store is held
// against it before memory is asked for: a few bytes cannot claim gigabytes.

namespace penstock::codec {

/// The most bytes that `stored` bytes can decode to through the filter alone. For compressors and
/// their kin that is a property of their format; filters that keep the size give `stored`.
/// UINT64_MAX: without bound (strings by dictionary, and what expect_readable() refuses).
uint64_t most_decoded_bytes(FilterType type, uint64_t stored) noexcept;

/// The same through all of `filters`, last one first.
uint64_t most_decoded_bytes(std::span<const FilterConfig> filters, uint64_t stored) noexcept;

}  // namespace penstock::codec
