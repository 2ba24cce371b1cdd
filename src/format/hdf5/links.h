#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "format/hdf5/file.h"
#include "format/hdf5/object_header.h"

namespace penstock::format::hdf5 {

/// The members of a group: header addresses by name, of hard links and of soft links within the
/// group. Of links to other files and of soft links that lead elsewhere the names are left out.
/// Source: HDF5 File Format Specification, III.B to III.D, IV.A.2.c, g and r.
std::map<std::string, uint64_t> read_links(const File& file, const ObjectHeader& header);

/// Whether an object is a group, old or new.
bool is_group(const ObjectHeader& header);

}  // namespace penstock::format::hdf5
