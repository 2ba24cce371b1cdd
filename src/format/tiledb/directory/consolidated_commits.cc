#include "format/tiledb/directory/consolidated_commits.h"

#include <penstock/error.h>

#include <string_view>

#include "base/byte_reader.h"
#include "base/concat.h"

namespace penstock::format::tiledb {

ConsolidatedCommits parse_consolidated_commits(std::span<const std::byte> bytes) {
  ConsolidatedCommits commits;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  ByteReader reader(bytes);
  while (!reader.empty()) {
    const size_t end = text.find('\n', reader.offset());
    if (end == std::string_view::npos) {
      throw CorruptData(concat("truncated: commit name has no end at offset ", reader.offset()));
    }
    std::string marker(reader.take_string(end - reader.offset(), "commit name"));
    reader.skip(1, "end of line");
    if (marker.ends_with(".del") || marker.ends_with(".upd")) {
      const auto length = reader.read<uint64_t>("condition size");
      const uint64_t offset = reader.offset();
      reader.skip(length, "condition");
      if (marker.ends_with(".del")) commits.deletes.emplace_back(std::move(marker), offset);
    } else if (marker.ends_with(".wrt") || marker.ends_with(".ok")) {
      commits.writes.push_back(std::move(marker));
    } else {
      throw CorruptData("commit of unknown kind: " + marker);
    }
  }
  return commits;
}

}  // namespace penstock::format::tiledb
