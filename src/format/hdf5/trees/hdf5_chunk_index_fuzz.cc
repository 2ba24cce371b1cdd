// The bytes are an index of chunks, of the type that the number chooses; the last ones are the
// shape of its array.

#include "format/hdf5/testing/fuzz_file.h"
#include "format/hdf5/trees/chunk_index.h"

using namespace penstock;
using namespace penstock::format;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr hdf5::ChunkIndexType kTypes[] = {
      hdf5::ChunkIndexType::kImplicit, hdf5::ChunkIndexType::kFixedArray,
      hdf5::ChunkIndexType::kExtensibleArray, hdf5::ChunkIndexType::kBTree2,
      hdf5::ChunkIndexType::kBTree1};
  constexpr size_t kShape = 8;
  return hdf5::run_fuzz_input(data, size, [&](const hdf5::FuzzInput& input) {
    if (input.bytes.size() < kShape) return;
    const auto last = input.bytes.last(kShape);
    const auto at = [&](size_t i) { return std::to_integer<uint64_t>(last[i]); };
    const size_t rank = 1 + input.number / 5 % 2;
    hdf5::ChunkedShape shape;
    hdf5::Layout layout;
    layout.kind = hdf5::Layout::Kind::kChunked;
    layout.address = input.address;
    layout.index = kTypes[input.number % std::size(kTypes)];
    layout.wide_sizes = (input.number & 64) != 0;
    shape.filtered = (input.number & 128) != 0;
    shape.chunk_bytes = 4;
    for (size_t d = 0; d < rank; ++d) {
      shape.shape.push_back(at(3 * d) << at(3 * d + 1) % 40);
      shape.most_shape.push_back(at(6) == d ? hdf5::Dataspace::kUnlimited : shape.shape[d]);
      shape.chunk_shape.push_back(at(3 * d + 2) + 1);
      shape.chunk_bytes *= shape.chunk_shape[d];
    }
    layout.chunk_shape = shape.chunk_shape;
    const auto index = hdf5::ChunkIndex::read(*input.file, layout, shape);
    const auto& chunks = index.chunks();
    for (size_t i = 1; i < chunks.size(); ++i) {
      if (chunks[i - 1].number >= chunks[i].number) __builtin_trap();
    }
    if (!chunks.empty() && index.find(chunks[0].number) == nullptr) __builtin_trap();
  });
}
