// First byte: kind of the other bytes. 0: inflated group details, 1: inflated metadata, 2: a
// consolidated commits file, 3: a file name.

#include <penstock/error.h>

#include "format/tiledb/directory/consolidated_commits.h"
#include "format/tiledb/directory/timestamped_name.h"
#include "format/tiledb/group.h"
#include "format/tiledb/metadata.h"

using namespace penstock;
using namespace penstock::format::tiledb;

namespace {

void parse(std::span<const std::byte> input) {
  const auto rest = input.subspan(1);
  switch (static_cast<unsigned>(input[0]) % 4) {
    case 0: {
      Group group;
      group.apply_details(rest);
      break;
    }
    case 1: {
      Metadata metadata;
      apply_metadata(metadata, rest);
      for (const auto& [key, value] : metadata) {
        value.as_string();
        value.as_int();
        value.as_double();
      }
      break;
    }
    case 2:
      for (const auto& [marker, offset] : parse_consolidated_commits(rest).deletes) {
        if (offset > rest.size()) throw Internal("condition is behind the end");
      }
      break;
    default: {
      const auto name =
          TimestampedName::parse({reinterpret_cast<const char*>(rest.data()), rest.size()});
      if (name && name->stem() + name->suffix != name->name) throw Internal("name falls apart");
      break;
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  try {
    parse(std::as_bytes(std::span(data, size)));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) throw;
  }
  return 0;
}
