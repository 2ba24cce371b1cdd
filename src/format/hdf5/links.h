#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "format/hdf5/file.h"
#include "format/hdf5/object/object_header.h"

namespace penstock::format::hdf5 {

/// A member of a group: an object of this file, or a link that leads somewhere.
struct Link {
  enum class Kind : uint8_t { kHard, kSoft, kOther };
  Kind kind = Kind::kHard;
  uint64_t address = 0;  ///< of the object's header, if it is hard
  std::string target;    ///< a path, if it is soft
};

/// The members of a group by name. Names that cannot be part of a path are left out. Source: HDF5
/// File Format Specification, III.B to III.D, IV.A.2.c, g and r.
std::map<std::string, Link> read_links(const File& file, const ObjectHeader& header);

/// The header address of the object at `path`, below the group at `group` or, if it begins with a
/// slash, below the root. Soft links are followed. Nothing if there is none. Throws Unsupported for
/// a link to another file.
std::optional<uint64_t> find_object(const File& file, uint64_t group, std::string_view path);

/// Whether an object is a group, old or new.
bool is_group(const ObjectHeader& header);

}  // namespace penstock::format::hdf5
