#include "io/zip/inflate.h"

#include <penstock/error.h>
#include <zlib.h>

#include <algorithm>
#include <limits>

#include "base/concat.h"

namespace penstock::io {
namespace {

class RawInflate {
 public:
  RawInflate() {
    // Negative: no header.
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) {
      throw ResourceExhausted("zlib cannot start: no memory");
    }
  }
  ~RawInflate() { inflateEnd(&stream); }
  RawInflate(const RawInflate&) = delete;
  RawInflate& operator=(const RawInflate&) = delete;

  z_stream stream = {};
};

/// zlib counts in 32 bits.
uInt at_once(size_t bytes) {
  return static_cast<uInt>(std::min<size_t>(bytes, std::numeric_limits<uInt>::max()));
}

}  // namespace

void expect_inflatable(uint64_t stored, uint64_t inflated) {
  // 258 bytes for two bits at most (zlib, Technical Details).
  constexpr uint64_t kMostRatio = 1032;
  if (inflated / kMostRatio > stored) {
    throw CorruptData(concat("a deflate stream of ", stored, " bytes cannot make ", inflated));
  }
}

void expect_crc32(std::span<const std::byte> contents, uint32_t expected) {
  const uLong crc = crc32_z(0, reinterpret_cast<const Bytef*>(contents.data()), contents.size());
  if (crc != expected) {
    throw CorruptData(
        concat("the CRC-32 of an entry of a zip archive must be ", expected, ", is ", crc));
  }
}

void inflate_raw(std::span<const std::byte> stored, std::span<std::byte> out,
                 uint32_t expected_crc) {
  RawInflate raw;
  z_stream& stream = raw.stream;
  Bytef nothing = 0;
  int status = Z_OK;
  size_t taken = 0;
  size_t made = 0;
  while (status == Z_OK) {
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(stored.data())) + taken;
    stream.avail_in = at_once(stored.size() - taken);
    stream.next_out = out.empty() ? &nothing : reinterpret_cast<Bytef*>(out.data()) + made;
    stream.avail_out = at_once(out.size() - made);
    const uInt in = stream.avail_in;
    const uInt room = stream.avail_out;
    status = inflate(&stream, Z_NO_FLUSH);
    taken += in - stream.avail_in;
    made += room - stream.avail_out;
    if (status == Z_OK && in == stream.avail_in && room == stream.avail_out) break;
  }
  if (status != Z_STREAM_END || taken != stored.size() || made != out.size()) {
    throw CorruptData(concat("bad deflate stream of ", stored.size(), " bytes to ", out.size()));
  }
  expect_crc32(out, expected_crc);
}

}  // namespace penstock::io
