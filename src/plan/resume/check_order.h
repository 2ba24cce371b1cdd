#pragma once

#include <penstock/resume.h>

#include <string>

// Which OrderSettings are refused, those of a saved state and those made by hand.

namespace penstock::plan {

/// Throws InvalidArgument: "the state is damaged: …".
[[noreturn]] void damaged(const std::string& reason);

/// Throws InvalidArgument for settings that no epoch has together.
void check_order(const OrderSettings& order);

}  // namespace penstock::plan
