// The bytes are a node of an older B-tree. An odd number: of chunks, in half so many dimensions.

#include "format/hdf5/testing/fuzz_file.h"
#include "format/hdf5/trees/btree_v1.h"

using namespace penstock;
using namespace penstock::format;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return hdf5::run_fuzz_input(data, size, [](const hdf5::FuzzInput& input) {
    const bool chunks = input.number % 2 != 0;
    const size_t key_bytes = chunks ? 8 + 8 * (size_t{input.number} / 2 % 5 + 1) : 8;
    hdf5::walk_btree_v1(*input.file, input.address,
                        chunks ? hdf5::BTree1Type::kChunks : hdf5::BTree1Type::kGroup, key_bytes,
                        [&](ByteReader& key, uint64_t) { key.skip(key_bytes, "key"); });
  });
}
