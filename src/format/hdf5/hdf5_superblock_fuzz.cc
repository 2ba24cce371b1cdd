// The bytes stand at the start of the file, whatever the address: its superblock and root.

#include "format/hdf5/hierarchy.h"
#include "format/hdf5/testing/fuzz_file.h"

using namespace penstock;
using namespace penstock::format;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 6) return 0;
  std::vector<uint8_t> input(data, data + size);
  std::fill_n(input.begin() + 1, 4, uint8_t{0});
  return hdf5::run_fuzz_input(input.data(), size, [](const hdf5::FuzzInput& made) {
    if (const auto root = hdf5::open_hdf5(made.file->store(), "x.h5")) root->members();
  });
}
