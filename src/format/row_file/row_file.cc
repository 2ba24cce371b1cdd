#include "format/row_file/row_file.h"

#include <penstock/error.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/byte_reader.h"
#include "base/checked.h"
#include "base/concat.h"
#include "base/hash/checksum.h"
#include "base/hash/sha256.h"
#include "format/row_file/row_file_layout.h"
#include "io/descriptor_cache.h"
#include "io/file_store.h"

namespace penstock::format::pack {

ContentKey content_key(std::string_view text) { return std::bit_cast<ContentKey>(sha256(text)); }

std::shared_ptr<const RowFile> RowFile::open(const io::StorePtr& store, const std::string& path) {
  auto file = std::make_shared<RowFile>(store, path);
  with_place([&] { file->load(); }, [&] { return path; });
  return file;
}

void RowFile::announce(const io::Store& store, std::span<const std::string> paths) {
  if (!store.traits().remote) return;
  std::vector<io::ObjectRange> ranges;
  for (const std::string& path : paths) ranges.push_back({path, {0, sizeof(RowFileHeader)}});
  store.will_read(ranges);
  ranges.clear();
  for (const std::string& path : paths) {
    RowFileHeader header;
    if (!store.exists(path) || store.size_bytes(path) < sizeof(header)) continue;  // open() tells
    store.read(path, 0, std::as_writable_bytes(std::span(&header, 1)));
    const uint64_t file_bytes = store.size_bytes(path);
    if (header.index_offset >= file_bytes) continue;
    ranges.push_back({path, {header.index_offset, file_bytes - header.index_offset}});
  }
  store.will_read(ranges);
}

void RowFile::load() {
  local_ = dynamic_cast<const io::FileStore*>(store_.get()) != nullptr;
  remote_ = store_->traits().remote;
  if (local_) path_ = io::normalize(path_);
  if (local_) {
    // An open descriptor may belong to an earlier file of this name.
    io::forget_descriptor(path_);
    identity_ = io::open_descriptor(path_)->identity();
  }
  file_bytes_ = local_ ? identity_.size_bytes : store_->size_bytes(path_);
  RowFileHeader header;
  if (file_bytes_ < sizeof(header)) {
    throw CorruptData(concat("a row file of ", file_bytes_, " bytes"));
  }
  const auto bytes = std::as_writable_bytes(std::span(&header, 1));
  read(0, bytes);
  if (header.magic != kRowFileMagic) throw CorruptData("not a row file of a pack");
  if (header.version != kRowFileVersion) {
    throw Unsupported(concat("a row file of version ", header.version,
                             "; this Penstock reads version ", kRowFileVersion,
                             ": use a newer one, or pack the experiment again"));
  }
  if (header.header_checksum != lane_checksum(bytes.first(bytes.size() - sizeof(uint32_t)))) {
    throw CorruptData("the checksum of the header does not fit it");
  }
  facts_.key = header.key;
  facts_.row_begin = header.row_begin;
  facts_.row_end = header.row_end;
  facts_.column_count = header.column_count;
  if (header.value_type > kLastDataType) {
    throw CorruptData(concat("value type ", header.value_type));
  }
  facts_.value_type = static_cast<DataType>(header.value_type);
  nonzeros_ = header.nonzeros;
  if (header.column_count > kMostColumns || header.row_begin < 0 ||
      header.row_end < header.row_begin || header.index_offset < sizeof(header) ||
      header.index_offset > file_bytes_ ||
      header.index_bytes != file_bytes_ - header.index_offset) {
    throw CorruptData(concat("rows ", header.row_begin, " to ", header.row_end, ", ",
                             header.column_count, " columns, an index of ", header.index_bytes,
                             " bytes at ", header.index_offset, " in a file of ", file_bytes_));
  }
  record_bytes_ = header.index_offset - sizeof(header);
  Buffer index(header.index_bytes);
  read(header.index_offset, index.span());
  if (header.index_checksum != lane_checksum(index.span())) {
    throw CorruptData("the checksum of the index does not fit it");
  }
  load_index(index.span(), header.row_count);
}

void RowFile::load_index(std::span<const std::byte> index, uint64_t row_count) {
  ByteReader reader(index);
  const auto bitmap_bytes = reader.read<uint64_t>("length of the bitmap of rows");
  const auto bitmap = reader.take(bitmap_bytes, "bitmap of rows");
  contiguous_ = bitmap_bytes == 0;
  if (contiguous_) {
    if (row_count > static_cast<uint64_t>(facts_.row_end - facts_.row_begin)) {
      throw CorruptData(concat(row_count, " rows from ", facts_.row_begin, " to ", facts_.row_end));
    }
    rows_ =
        RowSelection::range(facts_.row_begin, facts_.row_begin + static_cast<int64_t>(row_count));
  } else {
    rows_ = RowSelection::deserialize(bitmap);
    if (rows_.size() != row_count || rows_.empty() || rows_.at(0) < facts_.row_begin ||
        rows_.at(row_count - 1) >= facts_.row_end) {
      throw CorruptData(concat("a bitmap of ", rows_.size(), " rows, ", row_count, " said"));
    }
  }
  const auto long_count = reader.read<uint64_t>("number of long records");
  reader.expect_items(long_count, 16, "long records");
  for (uint64_t i = 0; i < long_count; ++i) {
    const auto position = reader.read<uint64_t>("position of a long record");
    const auto words = reader.read<uint64_t>("length of a long record");
    if (position >= row_count || (i != 0 && position <= long_words_.back().first) ||
        words > record_bytes_ / kWordBytes) {
      throw CorruptData(concat("a long record of ", words, " words at position ", position));
    }
    long_words_.emplace_back(position, words);
  }
  reader.expect_items(row_count, sizeof(uint16_t), "lengths of records");
  const auto lengths = reader.take(row_count * sizeof(uint16_t), "lengths of records");
  words_.resize(row_count);
  if (row_count != 0) std::memcpy(words_.data(), lengths.data(), lengths.size());
  if (!reader.empty()) throw CorruptData("bytes behind the index");
  uint64_t offset = sizeof(RowFileHeader);
  size_t next_long = 0;
  for (uint64_t i = 0; i < row_count; ++i) {
    if (i % kGroupRows == 0) group_bases_.push_back(offset);
    uint64_t words = words_[i];
    if (words == kLongRecord) {
      if (next_long == long_words_.size() || long_words_[next_long].first != i) {
        throw CorruptData(concat("a long record without a length at position ", i));
      }
      words = long_words_[next_long++].second;
    }
    offset +=
        words * kWordBytes;  // lengths are below that of the file: no overflow before the check
    if (offset > sizeof(RowFileHeader) + record_bytes_) break;
  }
  if (offset != sizeof(RowFileHeader) + record_bytes_ || next_long != long_words_.size()) {
    throw CorruptData("records of other lengths than the file has room for");
  }
}

uint64_t RowFile::words(uint64_t position) const {
  const uint16_t words = words_[position];
  if (words != kLongRecord) return words;
  const auto found = std::lower_bound(long_words_.begin(), long_words_.end(),
                                      std::pair<uint64_t, uint64_t>(position, 0));
  return found->second;
}

RecordPlace RowFile::place(uint64_t position) const {
  uint64_t offset = group_bases_[position / kGroupRows];
  for (uint64_t i = position / kGroupRows * kGroupRows; i < position; ++i) {
    offset += words(i) * kWordBytes;
  }
  return {offset, words(position) * kWordBytes};
}

bool RowFile::contains(int64_t row) const {
  if (row < facts_.row_begin) return false;
  return contiguous_ ? static_cast<uint64_t>(row - facts_.row_begin) < words_.size()
                     : rows_.contains(row);
}

bool RowFile::find(int64_t row, RecordPlace& place_out) const {
  if (!contains(row)) return false;
  place_out = place(contiguous_ ? static_cast<uint64_t>(row - facts_.row_begin) : rows_.rank(row));
  return true;
}

/// Opens the file again by name if the descriptor cache has evicted it.
std::shared_ptr<const io::OpenFile> RowFile::opened() const {
  auto file = io::open_descriptor(path_);
  if (file->identity() == identity_) return file;
  io::forget_descriptor(path_);
  file = io::open_descriptor(path_);
  if (file->identity() == identity_) return file;
  throw IoError("the file was replaced while it was read: " + path_);
}

void RowFile::read(uint64_t offset, std::span<std::byte> out) const {
  if (local_) {
    opened()->read(offset, out);
  } else {
    store_->read(path_, offset, out);
  }
}

void RowFile::will_need(uint64_t offset, uint64_t length) const noexcept {
  if (!local_) return;
  try {
    opened()->will_need(offset, length);
  } catch (...) {
    // Reading the rows throws the error.
  }
}

size_t RowFile::memory_bytes() const noexcept {
  return sizeof(*this) + words_.capacity() * sizeof(uint16_t) +
         group_bases_.capacity() * sizeof(uint64_t) + rows_.memory_bytes();
}

}  // namespace penstock::format::pack
