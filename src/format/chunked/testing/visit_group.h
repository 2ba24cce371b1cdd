#pragma once

#include <penstock/error.h>

#include <algorithm>
#include <string>

#include "format/chunked/read_array.h"

// What fuzz targets and damage tests do with a group. For tests only.

namespace penstock::format::chunked {

/// Opens all that a group has, and reads the first cells of arrays of one dimension. Errors of what
/// is stored are swallowed, Internal is thrown. Returns the number of errors.
inline size_t visit_group(const Group& group, int depth = 0) {
  size_t errors = 0;
  for (const std::string& name : group.members()) {
    try {
      if (const auto array = group.array(name)) {
        array->stored_bytes_per_chunk();
        const ArrayInfo& info = array->info();
        if (info.shape.size() != 1 || info.cell_bytes > 1000) continue;
        const uint64_t end = std::min<uint64_t>(info.shape[0], 100);
        if (info.strings == StringForm::kNone) {
          if (read_values(*array, 0, end, 1).size() != end * info.cell_bytes) {
            throw Internal("values of another size");
          }
        } else {
          read_strings(*array, 0, end, 1);
        }
      } else if (const auto inner = group.group(name); inner && depth < 4) {
        errors += visit_group(*inner, depth + 1);
      }
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kInternal) throw;
      ++errors;
    }
  }
  return errors;
}

/// Runs `body`; errors of what is stored are swallowed, Internal is thrown.
template <typename Body>
void run_fuzzed(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) throw;
  }
}

}  // namespace penstock::format::chunked
