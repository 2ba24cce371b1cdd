#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "base/memory/buffer.h"

struct z_stream_s;

// Inflates zlib streams (RFC 1950) and gzip members (RFC 1952): by libdeflate if the size is known,
// else by zlib, which can stop and go on. inflateInit allocates some 40 KiB and costs as much as
// decoding a small tile, so each thread keeps one of both.

namespace penstock::codec {

enum class DeflateFormat {
  kZlib,  ///< one stream
  kGzip,  ///< one member or several, joined
};

/// A stream or member that is inflated piece by piece.
class InflateStream {
 public:
  InflateStream();
  ~InflateStream();
  InflateStream(const InflateStream&) = delete;
  InflateStream& operator=(const InflateStream&) = delete;

  void start(DeflateFormat format);

  enum class Progress { kMore, kEnd, kBad };
  /// Inflates until the stream ends, one of the spans is used up, or nothing moves. Takes what was
  /// used off the fronts of both. The stream may have bytes to give when `in` is empty.
  Progress run(std::span<const std::byte>& in, std::span<std::byte>& out);

 private:
  std::unique_ptr<z_stream_s> stream_;
};

/// Inflates all of `in` into `out`. False if a stream is bad, or does not end with `in`, or does
/// not fill `out` exactly.
bool inflate_exactly(DeflateFormat format, std::span<const std::byte> in, std::span<std::byte> out);

/// Inflates all of `in` into `out`, which grows as bytes come. False if a stream is bad, does not
/// end with `in` or makes more than `most` bytes.
bool inflate_unsized(DeflateFormat format, std::span<const std::byte> in, uint64_t most,
                     Buffer& out);

}  // namespace penstock::codec
