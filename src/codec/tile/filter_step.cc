#include "codec/tile/filter_step.h"

#include <penstock/error.h>

#include "base/concat.h"
#include "codec/compressors/bzip2.h"
#include "codec/compressors/delta.h"
#include "codec/compressors/double_delta.h"
#include "codec/compressors/gzip.h"
#include "codec/compressors/lz4.h"
#include "codec/compressors/rle.h"
#include "codec/compressors/zstd.h"
#include "codec/filters/bit_width_reduction.h"
#include "codec/filters/bitshuffle.h"
#include "codec/filters/byteshuffle.h"
#include "codec/filters/checksum.h"
#include "codec/filters/none.h"
#include "codec/filters/positive_delta.h"
#include "codec/filters/scale_float.h"
#include "codec/filters/xor.h"

namespace penstock::codec {

std::span<std::byte> FilterStep::make(StepTarget& target, uint64_t size,
                                      std::string_view what) const {
  if (target.fixed) {
    if (size != target.fixed->size()) {
      throw CorruptData(concat(name_of(config.type), " filter gives ", size,
                               " bytes where the chunk has ", target.fixed->size()));
    }
    return *target.fixed;
  }
  if (size > target.limit) {
    throw CorruptData(concat(name_of(config.type), " filter claims an implausible size of ", what,
                             ": ", size, " bytes, limit ", target.limit));
  }
  target.buffer->resize_discard(static_cast<size_t>(size));
  return target.buffer->span();
}

void expect_readable(FilterType type) {
  switch (type) {
    case FilterType::kDictionary:
      throw CorruptData(
          "dictionary filter over cells that are not strings of variable length, or not first");
    case FilterType::kAes256Gcm:
      throw Unsupported(
          "encrypted arrays (AES-256-GCM) are not read; write a copy without encryption through "
          "tiledb, with the key");
    case FilterType::kWebp:
      throw Unsupported(
          "the WebP filter is not read; write a copy of the array with another filter, such as "
          "zstd");
    case FilterType::kDeprecated:
      throw Unsupported(
          concat("filter ", name_of(type), " (code ", static_cast<int>(type), ") is not read"));
    default:
      break;
  }
}

void run_step(FilterStep& step) {
  switch (step.config.type) {
    case FilterType::kNone:
      return decode_none(step);
    case FilterType::kGzip:
      return decode_gzip(step);
    case FilterType::kZstd:
      return decode_zstd(step);
    case FilterType::kLz4:
      return decode_lz4(step);
    case FilterType::kRle:
      return decode_rle(step);
    case FilterType::kBzip2:
      return decode_bzip2(step);
    case FilterType::kBitShuffle:
      return decode_bitshuffle(step);
    case FilterType::kByteShuffle:
      return decode_byteshuffle(step);
    case FilterType::kChecksumMd5:
    case FilterType::kChecksumSha256:
      return decode_checksum(step);
    case FilterType::kDelta:
      return decode_delta(step);
    case FilterType::kDoubleDelta:
      return decode_double_delta(step);
    case FilterType::kBitWidthReduction:
      return decode_bit_width_reduction(step);
    case FilterType::kPositiveDelta:
      return decode_positive_delta(step);
    case FilterType::kScaleFloat:
      return decode_scale_float(step);
    case FilterType::kXor:
      return decode_xor(step);
    default:
      expect_readable(step.config.type);
  }
}

}  // namespace penstock::codec
