// The bytes are the header of a fractal heap, or a block of one. Their last ones are ids of
// objects.

#include "format/hdf5/heaps/fractal_heap.h"
#include "format/hdf5/testing/fuzz_file.h"

using namespace penstock;
using namespace penstock::format;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return hdf5::run_fuzz_input(data, size, [](const hdf5::FuzzInput& input) {
    hdf5::FractalHeap heap(*input.file, input.address);
    for (size_t i = 1; i <= 8 && i * heap.id_bytes() <= input.bytes.size(); ++i) {
      chunked::run_fuzzed([&] {
        heap.read(input.bytes.subspan(input.bytes.size() - i * heap.id_bytes(), heap.id_bytes()));
      });
    }
  });
}
