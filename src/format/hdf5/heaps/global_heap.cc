#include "format/hdf5/heaps/global_heap.h"

#include <penstock/error.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/concat.h"
#include "base/threads/mutex.h"
#include "base/threads/parallel.h"
#include "base/utf8.h"

namespace penstock::format::hdf5 {

size_t heap_reference_bytes(const File& file) { return size_t{4} + file.offset_bytes() + 4; }

HeapReference read_heap_reference(const File& file, ByteReader& reader) {
  HeapReference reference;
  reference.length = reader.read<uint32_t>("length of a string");
  reference.collection = file.read_address(reader, "address of a string");
  reference.number = reader.read<uint32_t>("number of a string");
  return reference;
}

HeapCollection::HeapCollection(const File& file, uint64_t address) {
  // Both heads are padded to a multiple of 8.
  const size_t head = (size_t{8} + file.length_bytes() + 7) / 8 * 8;
  const Buffer start = file.read(address, head, "a heap of strings");
  ByteReader reader(start.span());
  expect_signature(reader, "GCOL");
  read_version(reader, 1, 1, "a heap of strings");
  reader.skip(3, "a heap of strings");
  const uint64_t size = file.read_length(reader, "size of a heap of strings");
  if (size < head) throw CorruptData(concat("a heap of strings of ", size, " bytes"));
  bytes_ = file.read(address, size, "a heap of strings");
  ByteReader objects(std::as_const(bytes_).span());
  objects.skip(head, "a heap of strings");
  const size_t object_head = head;
  while (objects.remaining() >= object_head) {
    const auto number = objects.read<uint16_t>("number of a string");
    objects.skip(6, "a string");
    const uint64_t length = file.read_length(objects, "size of a string");
    objects.skip(object_head - 8 - file.length_bytes(), "a string");
    if (number == 0) break;  // free space, to the end
    objects_[number] = objects.take(length, "a string");
    const uint64_t padding = (8 - length % 8) % 8;
    objects.skip(std::min<uint64_t>(padding, objects.remaining()), "a string");
  }
}

std::span<const std::byte> HeapCollection::find(const HeapReference& reference) const {
  const auto found = objects_.find(reference.number);
  if (found == objects_.end()) {
    throw CorruptData(concat("a heap of strings has no object ", reference.number));
  }
  if (reference.length > found->second.size()) {
    throw CorruptData(
        concat("a string of ", reference.length, " bytes is stored in ", found->second.size()));
  }
  return found->second.first(reference.length);
}

chunked::Strings read_heap_strings(const File& file, std::span<const std::byte> cells,
                                   unsigned threads) {
  constexpr size_t kTogether = 256;  // collections whose pages are asked for together
  const size_t cell_bytes = heap_reference_bytes(file);
  const size_t count = cells.size() / cell_bytes;
  const auto reference_of = [&](size_t i) {
    ByteReader reader(cells.subspan(i * cell_bytes, cell_bytes));
    return read_heap_reference(file, reader);
  };
  chunked::Strings strings;
  strings.offsets.reserve(count + 1);
  strings.offsets.push_back(0);
  // Strings by collection. Each collection is read once and dropped, in whatever order they were
  // written.
  std::vector<std::pair<uint64_t, size_t>> order;
  Walk walk(file);
  for (size_t i = 0; i < count; ++i) {
    const HeapReference reference = reference_of(i);
    walk.count(reference.length, "strings");
    strings.offsets.push_back(strings.offsets.back() + reference.length);
    if (reference.length != 0) order.emplace_back(reference.collection, i);
  }
  std::sort(order.begin(), order.end());
  std::vector<size_t> starts;  // in `order`, of each collection
  for (size_t k = 0; k < order.size(); ++k) {
    if (k == 0 || order[k].first != order[k - 1].first) starts.push_back(k);
  }
  const size_t collections = starts.size();
  starts.push_back(order.size());
  strings.characters.resize(strings.offsets.back());
  Mutex mutex;
  Walk heaps(file);
  for (size_t begin = 0; begin < collections; begin += kTogether) {
    const size_t together = std::min(kTogether, collections - begin);
    std::vector<File::Place> places;
    for (size_t i = begin; i < begin + together; ++i) places.push_back({order[starts[i]].first, 1});
    file.will_read(places);
    parallel_for(together, threads, [&](size_t i) {
      const HeapCollection collection(file, order[starts[begin + i]].first);
      {
        const MutexLock lock(mutex);
        heaps.count(collection.size_bytes(), "heaps of strings");
      }
      for (size_t k = starts[begin + i]; k < starts[begin + i + 1]; ++k) {
        const size_t cell = order[k].second;
        const auto text = collection.find(reference_of(cell));
        if (!is_utf8({reinterpret_cast<const char*>(text.data()), text.size()})) {
          throw CorruptData(concat("string ", cell, " is not UTF-8"));
        }
        std::copy(text.begin(), text.end(),
                  strings.characters.begin() + static_cast<ptrdiff_t>(strings.offsets[cell]));
      }
    });
  }
  return strings;
}

}  // namespace penstock::format::hdf5
