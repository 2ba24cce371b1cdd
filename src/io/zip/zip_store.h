#pragma once

#include <string>

#include "io/store.h"

namespace penstock::io {

/// A store over the zip archive at `path` in another store. Its root is `path`: entry "a/b" of
/// "x.zip" is "x.zip/a/b". Only the directory of the archive is read.
///
/// Entries that are stored without compression are read in place. Deflated ones are inflated whole
/// when any of their bytes is read; small ones are kept. Other methods and encrypted entries are
/// Unsupported when they are read. Throws CorruptData if the archive is none.
///
/// The CRC-32 of an entry is checked whenever all of it is read at once.
StorePtr open_zip(const StorePtr& store, const std::string& path);

}  // namespace penstock::io
