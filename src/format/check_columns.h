#pragma once

#include <cstdint>
#include <span>

namespace penstock::format {

/// Throws InvalidArgument unless column ids ascend strictly and are in [0, domain_end).
void check_columns(std::span<const int64_t> columns, int64_t domain_end);

}  // namespace penstock::format
