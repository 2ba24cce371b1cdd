#pragma once

#include <string>

#include "io/store.h"

namespace penstock::format::zarr {

/// Announces all metadata documents of a hierarchy without consolidated ones. For remote stores
/// whose listings are known (Store::will_open), where lists cost no round trips: opening arrays
/// then costs none either. Hierarchies of very many objects are announced in part.
void announce_metadata(const io::Store& store, const std::string& root);

}  // namespace penstock::format::zarr
