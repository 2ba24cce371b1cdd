#pragma once

#include <string>

#include "format/tiledb/directory/array_directory.h"

namespace penstock::format::tiledb {

/// Returns a text that identifies the visible content of an array: its schema, fragments and
/// deletes, whose names contain unique random ids, and the time range if a fragment is only partly
/// in range. The text is the same for copies elsewhere and for any time after the last write. Each
/// write changes it.
std::string content_text(const ArrayDirectory& directory, bool dense);

}  // namespace penstock::format::tiledb
