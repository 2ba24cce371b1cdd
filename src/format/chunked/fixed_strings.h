#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "format/chunked/array.h"

// Strings in cells of fixed size: code points (little-endian) or bytes.

namespace penstock::format::chunked {

/// Appends the string of a cell as UTF-8, without the padding. Throws CorruptData for what is no
/// text.
void append_fixed(std::span<const std::byte> cell, StringForm form,
                  std::vector<std::byte>& characters);

/// Writes a zero-padded string into a cell of zeros; false if it does not fit or is not UTF-8.
bool encode_fixed(std::string_view text, StringForm form, std::span<std::byte> cell);

}  // namespace penstock::format::chunked
