#include "io/remote/read_ahead.h"

#include <cstring>
#include <utility>

namespace penstock::io {

// Blocks of an object may overlap: the eight nearest ones that begin at or before the range are
// checked.
const std::pair<const uint64_t, ReadAhead::Block>* ReadAhead::find(const std::string& path,
                                                                   const ByteRange& range) const {
  const auto object = objects_.find(path);
  if (object == objects_.end()) return nullptr;
  auto block = object->second.upper_bound(range.offset);
  for (int tries = 0; tries < 8 && block != object->second.begin(); ++tries) {
    --block;
    const uint64_t skipped = range.offset - block->first;
    if (skipped <= block->second.bytes.size() &&
        range.length <= block->second.bytes.size() - skipped) {
      return &*block;
    }
  }
  return nullptr;
}

bool ReadAhead::has(const std::string& path, const ByteRange& range) const {
  return find(path, range) != nullptr;
}

bool ReadAhead::take(const std::string& path, uint64_t offset, std::span<std::byte> out) {
  const auto* found = find(path, {offset, out.size()});
  if (found == nullptr) return false;
  Block& block = objects_[path].at(found->first);
  if (!out.empty())
    std::memcpy(out.data(), block.bytes.data() + (offset - found->first), out.size());
  block.handed_out += out.size();
  if (block.bytes.size() > kSmallBytes && block.handed_out >= block.bytes.size()) {
    drop(path, found->first);
  }
  return true;
}

void ReadAhead::put(const std::string& path, uint64_t offset, Buffer bytes) {
  drop(path, offset);
  bytes_ += bytes.size();
  const uint64_t number = next_number_++;
  by_age_[number] = {path, offset};
  objects_[path][offset] = {std::move(bytes), 0, number};
  while (bytes_ > kRoomBytes && by_age_.size() > 1) {
    const auto oldest = by_age_.begin()->second;
    drop(oldest.first, oldest.second);
  }
}

void ReadAhead::drop(const std::string& path, uint64_t offset) {
  const auto object = objects_.find(path);
  if (object == objects_.end()) return;
  const auto block = object->second.find(offset);
  if (block == object->second.end()) return;
  bytes_ -= block->second.bytes.size();
  by_age_.erase(block->second.number);
  object->second.erase(block);
  if (object->second.empty()) objects_.erase(object);
}

}  // namespace penstock::io
