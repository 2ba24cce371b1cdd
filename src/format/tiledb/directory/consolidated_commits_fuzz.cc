// A consolidated commits file, with the delete conditions that lie in it.

#include <penstock/error.h>

#include "format/tiledb/condition/delete_condition.h"
#include "format/tiledb/directory/consolidated_commits.h"
#include "format/tiledb/generic_tile.h"

using namespace penstock;
using namespace penstock::format::tiledb;

namespace {

void read_condition(std::span<const std::byte> tile) {
  try {
    const GenericTile inflated = decode_generic_tile(tile);
    condition_fields(DeleteCondition::parse(inflated.bytes.span()));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) throw;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    const ConsolidatedCommits commits = parse_consolidated_commits(bytes);
    for (const std::string& marker : commits.writes) {
      if (!marker.ends_with(".wrt") && !marker.ends_with(".ok")) throw Internal("no write");
    }
    for (const auto& [marker, offset] : commits.deletes) {
      if (offset > size) throw Internal("condition is behind the end");
      read_condition(bytes.subspan(offset));
    }
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) throw;
  }
  return 0;
}
