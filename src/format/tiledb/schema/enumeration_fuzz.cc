// First byte: kind of the other bytes. 0: an inflated enumeration, 1: a stored enumeration file.
// Then every value is read, as by a column that uses it.

#include <penstock/error.h>

#include "format/tiledb/generic_tile.h"
#include "format/tiledb/schema/enumeration.h"

using namespace penstock;
using namespace penstock::format::tiledb;

namespace {

void walk(const Enumeration& enumeration) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < enumeration.size(); ++i) bytes += enumeration.string_value(i).size();
  if (bytes != enumeration.data.size()) throw Internal("values do not fill the data");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto rest = std::as_bytes(std::span(data + 1, size - 1));
  try {
    if (data[0] % 2 == 0) {
      walk(Enumeration::parse(rest));
    } else {
      walk(Enumeration::parse(decode_generic_tile(rest).bytes.span()));
    }
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) throw;
  }
  return 0;
}
