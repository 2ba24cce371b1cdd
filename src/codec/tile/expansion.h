#pragma once

#include <cstdint>
#include <span>

#include "codec/tile/filter_config.h"

// Bounds how many bytes a filter can make of its stored bytes. Lengths from a store are checked
// against the bound before memory is allocated, so a few bytes cannot claim gigabytes.

namespace penstock::codec {

/// Most bytes that `stored` bytes can decode to with this filter. For compressors this follows from
/// their format; for filters that keep the size it is `stored`. UINT64_MAX: no bound (strings by
/// dictionary, and filters that expect_readable() refuses).
uint64_t most_decoded_bytes(FilterType type, uint64_t stored) noexcept;

/// The same through all of `filters`, last one first.
uint64_t most_decoded_bytes(std::span<const FilterConfig> filters, uint64_t stored) noexcept;

}  // namespace penstock::codec
