#include "codec/compressors/gzip.h"

#include <penstock/error.h>
#include <zlib.h>

#include "codec/compressors/compression.h"

namespace penstock::codec {
namespace {

// inflateInit allocates some 40 KiB and costs as much as decoding a small tile, so each thread
// resets and reuses one stream.
class InflateStream {
 public:
  InflateStream() {
    if (inflateInit(&stream_) != Z_OK) throw ResourceExhausted("zlib cannot start: no memory");
  }
  ~InflateStream() { inflateEnd(&stream_); }
  InflateStream(const InflateStream&) = delete;
  InflateStream& operator=(const InflateStream&) = delete;

  bool inflate_all(std::span<const std::byte> in, std::span<std::byte> out) {
    // zlib needs a valid pointer even without output. By the format both sizes are below 2^32.
    Bytef nothing = 0;
    inflateReset(&stream_);
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(in.data()));
    stream_.avail_in = static_cast<uInt>(in.size());
    stream_.next_out = out.empty() ? &nothing : reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(out.size());
    const int status = inflate(&stream_, Z_FINISH);
    return status == Z_STREAM_END && stream_.avail_out == 0 && stream_.avail_in == 0;
  }

 private:
  z_stream stream_ = {};
};

void decode_part(const FilterStep& step, std::span<const std::byte> in, std::span<std::byte> out) {
  thread_local InflateStream stream;
  if (!stream.inflate_all(in, out)) {
    throw_bad_part(step.config.type, "bad stream", in.size(), out.size());
  }
}

}  // namespace

void decode_gzip(FilterStep& step) { decode_compressed(step, decode_part); }

}  // namespace penstock::codec
