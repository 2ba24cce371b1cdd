// First byte: kind of the other bytes. 0: an inflated schema, 1: an inflated enumeration, 2: a
// stored generic tile.

#include <penstock/error.h>

#include "format/tiledb/generic_tile.h"
#include "format/tiledb/schema/array_schema.h"
#include "format/tiledb/schema/enumeration.h"

using namespace penstock;
using namespace penstock::format::tiledb;

namespace {

void walk(const Enumeration& enumeration) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < enumeration.size(); ++i) bytes += enumeration.value(i).size();
  if (bytes != enumeration.data.size()) throw Internal("values do not fill the data");
}

void parse(std::span<const std::byte> input) {
  const auto rest = input.subspan(1);
  switch (static_cast<unsigned>(input[0]) % 3) {
    case 0:
      ArraySchema::parse(rest, "fuzz");
      break;
    case 1:
      walk(Enumeration::parse(rest));
      break;
    default:
      decode_generic_tile(rest);
      break;
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
