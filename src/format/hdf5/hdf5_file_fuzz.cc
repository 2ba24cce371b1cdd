// The input is a file. Checksums of its metadata are believed, so that a search gets behind them.

#include <memory>
#include <span>

#include "format/chunked/testing/visit_group.h"
#include "format/hdf5/checksum.h"
#include "format/hdf5/hierarchy.h"
#include "io/memory_store.h"

using namespace penstock;
using namespace penstock::format;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const hdf5::IgnoreChecksums ignore;
  const auto store = std::make_shared<io::MemoryStore>();
  store->put("x.h5", std::as_bytes(std::span(data, size)));
  chunked::run_fuzzed([&] {
    if (const auto root = hdf5::open_hdf5(store, "x.h5")) chunked::visit_group(*root);
  });
  return 0;
}
