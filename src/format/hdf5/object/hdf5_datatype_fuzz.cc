// The input is a datatype message.

#include "format/chunked/testing/visit_group.h"
#include "format/hdf5/object/datatype.h"

using namespace penstock;
using namespace penstock::format;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  chunked::run_fuzzed([&] {
    ByteReader reader(std::as_bytes(std::span(data, size)));
    const hdf5::Datatype type = hdf5::read_datatype(reader);
    if (type.text().empty()) __builtin_trap();
    type.number();
  });
  return 0;
}
