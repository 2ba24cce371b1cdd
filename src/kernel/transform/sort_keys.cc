#include "kernel/transform/sort_keys.h"

#include <array>
#include <cstddef>

namespace penstock::kernel {
namespace {
constexpr unsigned kDigitBits = 11;
constexpr size_t kDigits = size_t{1} << kDigitBits;
}  // namespace

void sort_keys(std::vector<uint64_t>& keys, unsigned key_bits, std::vector<uint64_t>& spare) {
  spare.resize(keys.size());
  std::array<uint32_t, kDigits> places;
  for (unsigned done = 0; done < key_bits; done += kDigitBits) {
    const unsigned shift = 32 + done;
    places.fill(0);
    for (const uint64_t key : keys) ++places[(key >> shift) & (kDigits - 1)];
    uint32_t before = 0;
    for (uint32_t& place : places) {
      const uint32_t count = place;
      place = before;
      before += count;
    }
    for (const uint64_t key : keys) spare[places[(key >> shift) & (kDigits - 1)]++] = key;
    keys.swap(spare);
  }
}

}  // namespace penstock::kernel
