#pragma once

#include <penstock/error.h>

#include <functional>
#include <string>

#include "base/concat.h"

namespace penstock {

/// Calls `body` with the function object of a comparison, `std::less<>{}` for kLess. `Op` is an
/// enum with the names below; throws `Internal` for its other values.
template <typename Op, typename Body>
decltype(auto) visit_comparison(Op op, Body&& body) {
  switch (op) {
    case Op::kLess:
      return body(std::less<>{});
    case Op::kLessEqual:
      return body(std::less_equal<>{});
    case Op::kGreater:
      return body(std::greater<>{});
    case Op::kGreaterEqual:
      return body(std::greater_equal<>{});
    case Op::kEqual:
      return body(std::equal_to<>{});
    case Op::kNotEqual:
      return body(std::not_equal_to<>{});
    default:
      throw Internal(concat("not a comparison: operator ", static_cast<int>(op)));
  }
}

}  // namespace penstock
