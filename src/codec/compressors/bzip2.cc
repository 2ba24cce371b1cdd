#include "codec/compressors/bzip2.h"

#include <bzlib.h>

#include "codec/compressors/compression.h"

namespace penstock::codec {
namespace {

void decode_part(const FilterStep& step, std::span<const std::byte> in, std::span<std::byte> out) {
  char nothing = 0;
  auto size = static_cast<unsigned>(out.size());
  const int status =
      BZ2_bzBuffToBuffDecompress(out.empty() ? &nothing : reinterpret_cast<char*>(out.data()),
                                 &size, reinterpret_cast<char*>(const_cast<std::byte*>(in.data())),
                                 static_cast<unsigned>(in.size()), 0, 0);
  if (status != BZ_OK || size != out.size()) {
    throw_bad_part(step.config.type, "bad stream", in.size(), out.size());
  }
}

}  // namespace

void decode_bzip2(FilterStep& step) { decode_compressed(step, decode_part); }

}  // namespace penstock::codec
