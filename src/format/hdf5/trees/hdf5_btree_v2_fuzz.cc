// The bytes are a newer B-tree, of the type that the number chooses.

#include "format/hdf5/testing/fuzz_file.h"
#include "format/hdf5/trees/btree_v2.h"

using namespace penstock;
using namespace penstock::format;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr hdf5::BTree2Type kTypes[] = {
      hdf5::BTree2Type::kHugeObjects, hdf5::BTree2Type::kLinkNames,
      hdf5::BTree2Type::kAttributeNames, hdf5::BTree2Type::kChunks,
      hdf5::BTree2Type::kFilteredChunks};
  return hdf5::run_fuzz_input(data, size, [&](const hdf5::FuzzInput& input) {
    constexpr size_t kLeast = 11;
    hdf5::walk_btree_v2(*input.file, input.address, kTypes[input.number % std::size(kTypes)],
                        kLeast, [](ByteReader& record) { record.skip(kLeast, "record"); });
  });
}
