#include <penstock/error.h>

#include "base/byte_reader.h"
#include "base/concat.h"
#include "format/tiledb/directory/array_directory.h"

// Source: format_spec/consolidated_fragment_metadata_file.md; the count of fragments at its start
// is only in tiledb/sm/fragment/fragment_info.cc.

namespace penstock::format::tiledb {

std::optional<std::span<const std::byte>> ArrayDirectory::ConsolidatedFooters::find(
    const std::string& fragment_name) const {
  const auto found = places_.find(fragment_name);
  if (found == places_.end()) return std::nullopt;
  return files_[found->second.first].span().subspan(found->second.second);
}

void ArrayDirectory::ConsolidatedFooters::add(Buffer file_contents) {
  ByteReader reader(file_contents.span());
  const auto count = reader.read<uint32_t>("number of fragments");
  reader.expect_items(count, 16, "fragments");
  for (uint32_t i = 0; i < count; ++i) {
    const auto length = reader.read<uint64_t>("fragment name length");
    const std::string_view name = reader.take_string(length, "fragment name");
    const auto offset = reader.read<uint64_t>("footer offset");
    if (offset > file_contents.size()) {
      throw CorruptData(
          concat("footer offset is behind the end of ", file_contents.size(), " bytes: ", offset));
    }
    places_.try_emplace(io::base_name(name), files_.size(), offset);
  }
  files_.push_back(std::move(file_contents));
}

}  // namespace penstock::format::tiledb
