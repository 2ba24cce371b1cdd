#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace penstock {

/// SHA-256 (FIPS 180-4) of the bytes. Throws Internal where OpenSSL has none.
std::array<std::byte, 32> sha256(std::string_view bytes);

}  // namespace penstock
