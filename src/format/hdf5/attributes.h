#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "format/hdf5/file.h"
#include "format/hdf5/object/object_header.h"

namespace penstock::format::hdf5 {

/// The attributes of an object: numbers, texts, booleans, and lists of them (of several dimensions:
/// one list). A reference to an object is the text of reference_text(). An attribute of another
/// type, as PyTables and MATLAB write some, is null. Throws CorruptData.
///
/// Source: HDF5 File Format Specification, IV.A.2.m and v.
nlohmann::json read_attributes(const File& file, const ObjectHeader& header);

/// "object at 2048", and the address of such a text.
std::string reference_text(uint64_t address);
std::optional<uint64_t> referenced_address(std::string_view text);

}  // namespace penstock::format::hdf5
