#pragma once

#include <string>

#include "format/tiledb/directory/array_directory.h"

namespace penstock::format::tiledb {

/// A text of what is visible of an array: its schema, fragments and deletes, whose names hold
/// random ids that no other has, and the time range where a fragment lies in it only in part. The
/// same for copies elsewhere and for any time after the last write; another after each write.
std::string content_text(const ArrayDirectory& directory, bool dense);

}  // namespace penstock::format::tiledb
