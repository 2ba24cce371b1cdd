#pragma once

#include <cstdint>
#include <string>

namespace penstock {

enum class Rounding { kDown, kUp };

/// A number of bytes for people: "512 bytes", "1.0 KiB", "24.5 MiB". Round up what is needed and
/// down what is available.
inline std::string byte_size(uint64_t bytes, Rounding rounding) {
  if (bytes < 1024) return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes");
  const char* const units[] = {" KiB", " MiB", " GiB", " TiB", " PiB"};
  const auto tenths_of = [&](int unit) {
    const int shift = 10 * (unit + 1);
    const uint64_t rest = bytes & ((uint64_t{1} << shift) - 1);
    const uint64_t more = rounding == Rounding::kUp ? (uint64_t{1} << shift) - 1 : 0;
    // The rest is below 2^50, so ten times the rest fits.
    return (bytes >> shift) * 10 + ((rest * 10 + more) >> shift);
  };
  int unit = 0;
  while (unit < 4 && tenths_of(unit) >= 10240) ++unit;
  const uint64_t tenths = tenths_of(unit);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + units[unit];
}

}  // namespace penstock
