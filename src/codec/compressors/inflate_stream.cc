#include "codec/compressors/inflate_stream.h"

#include <libdeflate.h>
#include <penstock/error.h>
#include <zlib.h>

#include <algorithm>
#include <limits>

#include "codec/growing_bytes.h"

namespace penstock::codec {
namespace {

InflateStream& thread_stream() {
  thread_local InflateStream stream;
  return stream;
}

/// libdeflate inflates what is known to fit, in less than half of zlib's time.
class WholeInflater {
 public:
  WholeInflater() : decompressor_(libdeflate_alloc_decompressor()) {
    if (decompressor_ == nullptr) throw ResourceExhausted("libdeflate cannot start: no memory");
  }
  ~WholeInflater() { libdeflate_free_decompressor(decompressor_); }
  WholeInflater(const WholeInflater&) = delete;
  WholeInflater& operator=(const WholeInflater&) = delete;

  /// Inflates one stream or member. Takes what was used off the fronts of both.
  bool run(DeflateFormat format, std::span<const std::byte>& in, std::span<std::byte>& out) {
    const auto inflate = format == DeflateFormat::kGzip ? libdeflate_gzip_decompress_ex
                                                        : libdeflate_zlib_decompress_ex;
    std::byte nothing{};  // a valid pointer even without output
    size_t in_bytes = 0, out_bytes = 0;
    if (inflate(decompressor_, in.data(), in.size(), out.empty() ? &nothing : out.data(),
                out.size(), &in_bytes, &out_bytes) != LIBDEFLATE_SUCCESS) {
      return false;
    }
    in = in.subspan(in_bytes);
    out = out.subspan(out_bytes);
    return true;
  }

 private:
  libdeflate_decompressor* const decompressor_;
};

}  // namespace

InflateStream::InflateStream() : stream_(std::make_unique<z_stream>()) {
  if (inflateInit(stream_.get()) != Z_OK) {
    throw ResourceExhausted("zlib cannot start: no memory");
  }
}

InflateStream::~InflateStream() { inflateEnd(stream_.get()); }

void InflateStream::start(DeflateFormat format) {
  // zlib.h, inflateInit2: 15 is the largest window; 16 more mean a gzip member.
  inflateReset2(stream_.get(), format == DeflateFormat::kGzip ? 15 + 16 : 15);
}

InflateStream::Progress InflateStream::run(std::span<const std::byte>& in,
                                           std::span<std::byte>& out) {
  constexpr size_t kMost = std::numeric_limits<uInt>::max();
  for (;;) {
    const size_t in_bytes = std::min(in.size(), kMost);
    const size_t out_bytes = std::min(out.size(), kMost);
    Bytef nothing = 0;  // zlib needs a valid pointer even without output
    stream_->next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(in.data()));
    stream_->avail_in = static_cast<uInt>(in_bytes);
    stream_->next_out = out.empty() ? &nothing : reinterpret_cast<Bytef*>(out.data());
    stream_->avail_out = static_cast<uInt>(out_bytes);
    // With Z_FINISH zlib keeps no window if the call reaches the end.
    const int status = inflate(stream_.get(), Z_FINISH);
    in = in.subspan(in_bytes - stream_->avail_in);
    out = out.subspan(out_bytes - stream_->avail_out);
    if (status == Z_STREAM_END) return Progress::kEnd;
    if (status != Z_OK && status != Z_BUF_ERROR) return Progress::kBad;
    const bool moved = in_bytes != stream_->avail_in || out_bytes != stream_->avail_out;
    if (!moved || in.empty() || out.empty()) return Progress::kMore;
  }
}

bool inflate_exactly(DeflateFormat format, std::span<const std::byte> in,
                     std::span<std::byte> out) {
  thread_local WholeInflater inflater;
  do {
    if (!inflater.run(format, in, out)) return false;
  } while (format == DeflateFormat::kGzip && !in.empty());
  return in.empty() && out.empty();
}

bool inflate_unsized(DeflateFormat format, std::span<const std::byte> in, uint64_t most,
                     Buffer& out) {
  using Progress = InflateStream::Progress;
  InflateStream& stream = thread_stream();
  GrowingBytes bytes(out, 4 * in.size());
  do {
    stream.start(format);
    Progress progress = Progress::kMore;
    while (progress == Progress::kMore) {
      auto room = bytes.room();
      const size_t room_bytes = room.size();
      const size_t in_bytes = in.size();
      progress = stream.run(in, room);
      bytes.add(room_bytes - room.size());
      const bool moved = in_bytes != in.size() || room_bytes != room.size();
      if (progress == Progress::kBad || !moved || bytes.size() > most) return false;
    }
  } while (format == DeflateFormat::kGzip && !in.empty());
  bytes.finish();
  return in.empty();
}

}  // namespace penstock::codec
