// The bytes are a collection of a global heap; the same bytes are read as cells that refer to it.

#include "format/hdf5/heaps/global_heap.h"
#include "format/hdf5/testing/fuzz_file.h"

using namespace penstock;
using namespace penstock::format;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return hdf5::run_fuzz_input(data, size, [](const hdf5::FuzzInput& input) {
    chunked::run_fuzzed([&] {
      const hdf5::HeapCollection collection(*input.file, input.address);
      for (uint32_t number = 0; number < 20; ++number) {
        chunked::run_fuzzed([&] {
          const auto object = collection.find({input.number, input.address, number});
          if (object.size() > collection.size_bytes()) __builtin_trap();
        });
      }
    });
    const size_t cell = hdf5::heap_reference_bytes(*input.file);
    hdf5::read_heap_strings(*input.file, input.bytes.first(input.bytes.size() / cell * cell), 1);
  });
}
