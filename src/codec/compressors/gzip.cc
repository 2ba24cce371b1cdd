#include "codec/compressors/gzip.h"

#include "codec/compressors/compression.h"
#include "codec/compressors/inflate_stream.h"

namespace penstock::codec {
namespace {

void decode_part(const FilterStep& step, std::span<const std::byte> in, std::span<std::byte> out) {
  if (!inflate_exactly(DeflateFormat::kZlib, in, out)) {
    throw_bad_part(step.config.type, "bad stream", in.size(), out.size());
  }
}

}  // namespace

void decode_gzip(FilterStep& step) { decode_compressed(step, decode_part); }

}  // namespace penstock::codec
