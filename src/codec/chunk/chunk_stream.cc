#include "codec/chunk/chunk_stream.h"

#include <penstock/error.h>

#include <algorithm>
#include <utility>

#include "base/concat.h"
#include "codec/compressors/inflate_stream.h"
#include "codec/filters/byteshuffle.h"

namespace penstock::codec {
namespace {

/// Stored bytes that a plane has in memory.
constexpr uint64_t kStoredAtOnce = uint64_t{1} << 20;
/// Cells that are un-shuffled at a time, and bytes that are dropped at a time.
constexpr uint64_t kCellsAtOnce = uint64_t{1} << 14;
constexpr uint64_t kDroppedAtOnce = uint64_t{1} << 16;

bool is_deflate(ChunkFilterType type) noexcept {
  return type == ChunkFilterType::kZlib || type == ChunkFilterType::kGzip;
}

}  // namespace

/// The bytes of the chunk before they were shuffled, from some place on.
class ChunkStream::Plane {
 public:
  Plane(const ChunkFilter* deflate, uint64_t stored_bytes, const ReadStored& read)
      : read_(read), end_(stored_bytes) {
    if (deflate == nullptr) return;
    inflate_ = std::make_unique<InflateStream>();
    format_ = deflate->type == ChunkFilterType::kGzip ? DeflateFormat::kGzip : DeflateFormat::kZlib;
    inflate_->start(format_);
  }

  void read(std::span<std::byte> out) {
    if (!inflate_) {
      if (out.size() > end_ - offset_) ended();
      read_(offset_, out);
      offset_ += out.size();
      return;
    }
    while (!out.empty()) step(out);
  }

  void skip(uint64_t bytes, Buffer& work) {
    if (!inflate_) {
      if (bytes > end_ - offset_) ended();
      offset_ += bytes;
      return;
    }
    work.resize_discard(std::min(bytes, kDroppedAtOnce));
    while (bytes > 0) {
      const uint64_t count = std::min(bytes, kDroppedAtOnce);
      read(work.span().first(count));
      bytes -= count;
    }
  }

  /// Throws unless the stored bytes end here.
  void check_end() {
    std::span<std::byte> nothing;
    while (inflate_ && (!ended_ || (format_ == DeflateFormat::kGzip && !used_up()))) step(nothing);
    if (!used_up()) {
      throw CorruptData(concat(end_ - offset_ + stored_.size(), " of ", end_,
                               " stored bytes are left behind the end of the chunk"));
    }
  }

 private:
  bool used_up() const noexcept { return stored_.empty() && offset_ == end_; }

  /// Inflates on. Throws if nothing moves.
  void step(std::span<std::byte>& out) {
    if (ended_) {
      if (format_ != DeflateFormat::kGzip || used_up()) ended();
      inflate_->start(format_);  // the next member
      ended_ = false;
    }
    const size_t in_bytes = stored_.size(), out_bytes = out.size();
    const auto progress = inflate_->run(stored_, out);
    if (progress == InflateStream::Progress::kBad) throw CorruptData("zlib: a damaged stream");
    ended_ = progress == InflateStream::Progress::kEnd;
    if (ended_ || in_bytes != stored_.size() || out_bytes != out.size()) return;
    if (!stored_.empty()) throw CorruptData("zlib: the stream makes more bytes than the chunk has");
    refill();
  }

  void refill() {
    if (offset_ == end_) ended();
    const uint64_t count = std::min(kStoredAtOnce, end_ - offset_);
    buffer_.resize_discard(count);
    read_(offset_, buffer_.span());
    offset_ += count;
    stored_ = std::as_const(buffer_).span();
  }

  [[noreturn]] static void ended() {
    throw CorruptData("the stored bytes end before the chunk is complete");
  }

  ReadStored read_;
  uint64_t offset_ = 0, end_ = 0;  ///< of what is stored and was not read
  std::unique_ptr<InflateStream> inflate_;
  DeflateFormat format_ = DeflateFormat::kZlib;
  bool ended_ = false;
  Buffer buffer_;
  std::span<const std::byte> stored_;  ///< in buffer_, not inflated
};

bool ChunkStream::decodes(const ChunkPipeline& pipeline, uint32_t cell_bytes) noexcept {
  std::span filters(pipeline.filters());
  if (!filters.empty() && filters[0].type == ChunkFilterType::kShuffle) {
    if (filters[0].element_bytes != cell_bytes) return false;
    filters = filters.subspan(1);
  }
  return filters.empty() || (filters.size() == 1 && is_deflate(filters[0].type));
}

ChunkStream::ChunkStream(const ChunkPipeline& pipeline, const StoredChunk& chunk,
                         uint32_t cell_bytes, ReadStored read)
    : left_(chunk.decoded_bytes) {
  if (!decodes(pipeline, cell_bytes) || chunk.decoded_bytes % cell_bytes != 0) {
    throw Internal(concat("a chunk of ", chunk.decoded_bytes, " bytes in cells of ", cell_bytes,
                          " is no stream: ", pipeline.text()));
  }
  const ChunkFilter* deflate = nullptr;
  const auto& filters = pipeline.filters();
  for (size_t i = 0; i < filters.size(); ++i) {
    if ((chunk.skipped_filters >> i & 1U) != 0) continue;
    if (filters[i].type == ChunkFilterType::kShuffle) {
      width_ = cell_bytes;
    } else {
      deflate = &filters[i];
    }
  }
  for (size_t i = 0; i < width_; ++i) {
    planes_.emplace_back(deflate, chunk.stored_bytes, read);
    planes_.back().skip(chunk.decoded_bytes / width_ * i, work_);
  }
  if (left_ == 0) check_end();
}

ChunkStream::~ChunkStream() = default;
ChunkStream::ChunkStream(ChunkStream&&) noexcept = default;
ChunkStream& ChunkStream::operator=(ChunkStream&&) noexcept = default;

void ChunkStream::next(std::span<std::byte> out) {
  if (out.size() > left_ || out.size() % width_ != 0) {
    throw Internal(
        concat("the next ", out.size(), " bytes of a chunk, of which ", left_, " are left"));
  }
  left_ -= out.size();
  if (width_ == 1) {
    planes_[0].read(out);
  } else {
    while (!out.empty()) {
      const size_t cells = std::min<uint64_t>(kCellsAtOnce, out.size() / width_);
      work_.resize_discard(cells * width_);
      for (size_t plane = 0; plane < width_; ++plane) {
        planes_[plane].read(work_.span().subspan(plane * cells, cells));
      }
      unshuffle_bytes(width_, std::as_const(work_).span(), out.first(cells * width_));
      out = out.subspan(cells * width_);
    }
  }
  if (left_ == 0) check_end();
}

void ChunkStream::skip(uint64_t bytes) {
  if (bytes > left_ || bytes % width_ != 0) {
    throw Internal(concat(bytes, " bytes of a chunk to skip, of which ", left_, " are left"));
  }
  left_ -= bytes;
  for (Plane& plane : planes_) plane.skip(bytes / width_, work_);
  if (left_ == 0 && bytes != 0) check_end();
}

// The last plane ends where the chunk ends.
void ChunkStream::check_end() { planes_.back().check_end(); }

}  // namespace penstock::codec
