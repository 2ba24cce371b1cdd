#pragma once

#include <string_view>

// Names from a store become text in Python and in messages, so they must be UTF-8.

namespace penstock {

/// Whether all of `text` is UTF-8 by Unicode 15, table 3-7: no surrogates, no overlong forms.
bool is_utf8(std::string_view text) noexcept;

}  // namespace penstock
