#include "format/chunked/forward_array.h"

#include <penstock/error.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/checked.h"
#include "base/concat.h"
#include "base/threads/mutex.h"
#include "codec/chunk/chunk_stream.h"

namespace penstock::format::chunked {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{1} << 20;

uint64_t piece_rows(uint64_t row_bytes) { return std::max<uint64_t>(1, kPieceBytes / row_bytes); }

/// The cells of an array in order, cut into whole pieces. The last one ends with zeros. For one
/// thread at a time.
class ForwardCells {
 public:
  ForwardCells(ArrayPtr array, uint64_t row_bytes)
      : array_(std::move(array)),
        bytes_(checked_mul(array_->info().shape[0], row_bytes, "the size of an array")),
        piece_bytes_(piece_rows(row_bytes) * row_bytes),
        chunk_bytes_(array_->info().decoded_bytes()),
        fill_(array_->info().fill_value) {
    if (array_->info().big_endian) std::reverse(fill_.begin(), fill_.end());  // as chunks have it
  }

  uint64_t bytes() const noexcept {
    return (bytes_ + piece_bytes_ - 1) / piece_bytes_ * piece_bytes_;
  }

  void read(uint64_t offset, std::span<std::byte> out) {
    while (!out.empty()) {
      load_piece(offset / piece_bytes_);
      const uint64_t skip = offset % piece_bytes_;
      const size_t count = std::min<uint64_t>(out.size(), piece_bytes_ - skip);
      std::memcpy(out.data(), piece_.data() + skip, count);
      out = out.subspan(count);
      offset += count;
    }
  }

 private:
  void load_piece(uint64_t number) {
    if (loaded_ == number) return;
    loaded_.reset();
    const uint64_t begin = number * piece_bytes_;
    if (begin >= bytes_) throw Internal(concat("byte ", begin, " of ", bytes_));
    if (begin < at_ || begin / chunk_bytes_ != at_ / chunk_bytes_) {
      stream_.reset();
      at_ = begin / chunk_bytes_ * chunk_bytes_;
    }
    const uint64_t count = std::min(piece_bytes_, bytes_ - begin);
    piece_.resize_discard(piece_bytes_);
    try {
      decode(begin - at_, nullptr);
      decode(count, piece_.data());
    } catch (...) {
      at_ = bytes_;  // the next read begins again
      throw;
    }
    std::memset(piece_.data() + count, 0, piece_bytes_ - count);
    loaded_ = number;
  }

  /// Decodes the next bytes of the array, to `out` unless it is null.
  void decode(uint64_t bytes, std::byte* out) {
    while (bytes > 0) {
      const uint64_t chunk = at_ / chunk_bytes_;
      const uint64_t count = std::min(bytes, chunk_bytes_ - at_ % chunk_bytes_);
      with_place([&] { decode_of(chunk, count, out); },
                 [&] { return concat("chunk ", chunk, " of ", array_->info().path); });
      if (out != nullptr) out += count;
      bytes -= count;
    }
  }

  void decode_of(uint64_t chunk, uint64_t bytes, std::byte* out) {
    if (at_ % chunk_bytes_ == 0) open_chunk(chunk);
    at_ += bytes;
    if (!stream_) {
      for (uint64_t i = 0; out != nullptr && i < bytes; i += fill_.size()) {
        std::memcpy(out + i, fill_.data(), fill_.size());
      }
      return;
    }
    out == nullptr ? stream_->skip(bytes) : stream_->next({out, bytes});
    // What a chunk has beyond the array is checked with it.
    if (at_ == bytes_ && stream_->left() != 0) stream_->skip(stream_->left());
  }

  void open_chunk(uint64_t chunk) {
    stream_.reset();
    array_->expect_unchanged();
    const ChunkPlace place = array_->places(std::span(&chunk, 1))[0];
    if (place.absent()) return;
    expect_backed(array_->info(), place);
    const codec::StoredChunk stored{place.length, chunk_bytes_, place.skipped_filters};
    stream_.emplace(array_->info().pipeline, stored, array_->info().cell_bytes,
                    [this, place](uint64_t offset, std::span<std::byte> out) {
                      array_->store().read(place.path, place.offset + offset, out);
                    });
  }

  const ArrayPtr array_;
  const uint64_t bytes_, piece_bytes_, chunk_bytes_;
  std::vector<std::byte> fill_;
  std::optional<uint64_t> loaded_;  ///< the piece in piece_
  Buffer piece_;
  uint64_t at_ = 0;  ///< byte that is decoded next
  /// Of the chunk that has that byte; none if it is absent or not begun.
  std::optional<codec::ChunkStream> stream_;
};

/// An object for each array, by the array's path.
class ForwardStore final : public io::Store {
 public:
  explicit ForwardStore(const std::vector<std::pair<ArrayPtr, uint64_t>>& arrays) {
    for (const auto& [array, row_bytes] : arrays) {
      objects_.try_emplace(array->info().path, array, row_bytes);
    }
  }

  std::vector<io::DirectoryEntry> list(const std::string& /*directory*/) const override {
    return {};
  }
  bool exists(const std::string& path) const override { return objects_.contains(path); }
  bool is_directory(const std::string& /*path*/) const override { return false; }
  uint64_t size_bytes(const std::string& path) const override {
    Object& object = objects_.at(path);
    const MutexLock lock(object.mutex);
    return object.cells.bytes();
  }
  void read(const std::string& path, uint64_t offset, std::span<std::byte> out) const override {
    Object& object = objects_.at(path);
    const MutexLock lock(object.mutex);
    object.cells.read(offset, out);
  }

 private:
  struct Object {
    Object(const ArrayPtr& array, uint64_t row_bytes) : cells(array, row_bytes) {}
    Mutex mutex;
    ForwardCells cells PENSTOCK_GUARDED_BY(mutex);
  };
  mutable std::map<std::string, Object> objects_;
};

class ForwardArray final : public Array {
 public:
  ForwardArray(std::shared_ptr<const ForwardStore> store, ArrayPtr array, uint64_t row_bytes)
      : store_(std::move(store)),
        array_(std::move(array)),
        info_(array_->info()),
        piece_bytes_(piece_rows(row_bytes) * row_bytes) {
    info_.chunk_shape[0] = piece_rows(row_bytes);
    info_.pipeline = {};
  }

  const ArrayInfo& info() const override { return info_; }
  const nlohmann::json& attributes() const override { return array_->attributes(); }
  const io::Store& store() const override { return *store_; }
  std::vector<ChunkPlace> places(std::span<const uint64_t> chunks) const override {
    std::vector<ChunkPlace> places;
    for (const uint64_t chunk : chunks) {
      places.push_back({info_.path, chunk * piece_bytes_, piece_bytes_, 0});
    }
    return places;
  }
  double stored_bytes_per_chunk() const override { return static_cast<double>(piece_bytes_); }
  void expect_unchanged() const override { array_->expect_unchanged(); }
  std::string version() const override { return array_->version(); }

 private:
  const std::shared_ptr<const ForwardStore> store_;
  const ArrayPtr array_;
  ArrayInfo info_;
  const uint64_t piece_bytes_;
};

/// Bytes of a row, if the array can be read in order.
std::optional<uint64_t> row_bytes_of(const ArrayInfo& info) {
  if (info.cell_bytes == 0 || info.shape.empty() ||
      !codec::ChunkStream::decodes(info.pipeline, info.cell_bytes)) {
    return std::nullopt;
  }
  uint64_t bytes = info.cell_bytes;
  for (size_t d = 1; d < info.shape.size(); ++d) {
    if (info.chunk_shape[d] != info.shape[d]) return std::nullopt;
    bytes = checked_mul(bytes, info.shape[d], "the size of a row");
  }
  return bytes == 0 ? std::nullopt : std::optional(bytes);
}

}  // namespace

std::vector<ArrayPtr> forward_arrays(const std::vector<ArrayPtr>& arrays) {
  std::vector<std::pair<ArrayPtr, uint64_t>> rows;
  for (const ArrayPtr& array : arrays) {
    const auto bytes = row_bytes_of(array->info());
    if (!bytes) return {};
    rows.emplace_back(array, *bytes);
  }
  const auto store = std::make_shared<const ForwardStore>(rows);
  std::vector<ArrayPtr> made;
  made.reserve(arrays.size());
  for (const auto& [array, row_bytes] : rows) {
    made.push_back(std::make_shared<const ForwardArray>(store, array, row_bytes));
  }
  return made;
}

}  // namespace penstock::format::chunked
