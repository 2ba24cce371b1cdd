#pragma once

#include <string_view>

// Names from a store become text in Python and in messages: they must be UTF-8.

namespace penstock {

/// Whether all of `text` is UTF-8 as Unicode 15, table 3-7 has it: no surrogates, no overlong
/// forms.
bool is_utf8(std::string_view text) noexcept;

}  // namespace penstock
