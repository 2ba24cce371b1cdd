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

namespace {

/// Strings of some cells. Each collection is read once and dropped.
class HeapWindow {
 public:
  HeapWindow(const File& file, std::vector<HeapReference> references, Walk& walk)
      : file_(file), references_(std::move(references)), texts_(references_.size()), walk_(walk) {
    for (uint32_t i = 0; i < references_.size(); ++i) {
      if (references_[i].length != 0) order_.push_back(i);
    }
    std::sort(order_.begin(), order_.end(), [&](uint32_t a, uint32_t b) {
      return references_[a].collection < references_[b].collection;
    });
    for (size_t begin = 0; begin < order_.size();) {
      starts_.push_back(begin);
      const uint64_t collection = at(begin).collection;
      while (begin < order_.size() && at(begin).collection == collection) ++begin;
    }
  }

  void read(unsigned threads) {
    std::vector<File::Place> places;
    for (const size_t start : starts_) places.push_back({at(start).collection, 1});
    file_.will_read(places);
    parallel_for(starts_.size(), threads, [&](size_t i) {
      const HeapCollection collection(file_, at(starts_[i]).collection);
      {
        const MutexLock lock(mutex_);
        walk_.count(collection.size_bytes(), "heaps of strings");
      }
      const size_t end = i + 1 < starts_.size() ? starts_[i + 1] : order_.size();
      for (size_t k = starts_[i]; k < end; ++k) {
        const auto text = collection.find(at(k));
        texts_[order_[k]].assign(reinterpret_cast<const char*>(text.data()), text.size());
      }
    });
  }

  const std::vector<std::string>& texts() const noexcept { return texts_; }

 private:
  const HeapReference& at(size_t i) const { return references_[order_[i]]; }

  const File& file_;
  const std::vector<HeapReference> references_;
  std::vector<uint32_t> order_;  ///< references by collection
  std::vector<size_t> starts_;   ///< in order_, of each collection
  std::vector<std::string> texts_;
  Mutex mutex_;
  Walk& walk_ PENSTOCK_GUARDED_BY(mutex_);
};

}  // namespace

chunked::Strings read_heap_strings(const File& file, std::span<const std::byte> cells,
                                   unsigned threads) {
  // Strings that are read at a time: some megabytes of collections.
  constexpr size_t kWindow = size_t{1} << 16;
  const size_t count = cells.size() / heap_reference_bytes(file);
  chunked::Strings strings;
  strings.offsets.reserve(count + 1);
  strings.offsets.push_back(0);
  Walk walk(file), heaps(file, 2);  // two windows may need a collection
  ByteReader reader(cells);
  for (size_t done = 0; done < count; done += kWindow) {
    std::vector<HeapReference> references;
    for (size_t i = done; i < std::min(count, done + kWindow); ++i) {
      references.push_back(read_heap_reference(file, reader));
      walk.count(references.back().length, "strings");
    }
    HeapWindow window(file, std::move(references), heaps);
    window.read(threads);
    for (const std::string& text : window.texts()) {
      if (!is_utf8(text)) {
        throw CorruptData(concat("string ", strings.offsets.size() - 1, " is not UTF-8"));
      }
      const auto bytes = std::as_bytes(std::span(text));
      strings.characters.insert(strings.characters.end(), bytes.begin(), bytes.end());
      strings.offsets.push_back(strings.characters.size());
    }
  }
  return strings;
}

}  // namespace penstock::format::hdf5
