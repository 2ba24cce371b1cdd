#pragma once

#include <penstock/data_type.h>

#include <cstdint>

#include "base/types/visit_type.h"

// Shared by bit width reduction and positive delta. They work on windows of integers, each with its
// own metadata. Data of unsupported types passes unchanged.

namespace penstock::codec {

/// Calls `body(T{})` with the integer type that a windowed filter uses for cells of `type`. Returns
/// false if data of the type passes unchanged, as dates and times did before format 20.
template <typename Body>
bool with_window_type(DataType type, uint32_t format_version, Body&& body) {
  const DataType stored = format_version >= 20 ? stored_type(type) : type;
  if (!is_integer(stored)) return false;
  return visit_integer(stored, [&]<typename T>(std::type_identity<T>) {
    if constexpr (sizeof(T) > 1) body(T{});
    return sizeof(T) > 1;
  });
}

}  // namespace penstock::codec
