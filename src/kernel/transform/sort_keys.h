#pragma once

#include <cstdint>
#include <vector>

// Stable sort of some thousands of numbered keys: the key is in the upper 32 bits, the number of an
// entry in the lower. Radix of 11 bits: for 2,000 keys a fifth of the time of std::sort.

namespace penstock::kernel {

/// Sorts ascending by the lowest `key_bits` bits of the key. `spare` is scratch.
void sort_keys(std::vector<uint64_t>& keys, unsigned key_bits, std::vector<uint64_t>& spare);

}  // namespace penstock::kernel
