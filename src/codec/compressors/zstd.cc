#include "codec/compressors/zstd.h"

#include <penstock/error.h>
#include <zstd.h>

#include <memory>

#include "codec/compressors/compression.h"
#include "codec/zstd/run_decoder.h"

namespace penstock::codec {
namespace {

struct FreeContext {
  void operator()(ZSTD_DCtx* context) const noexcept { ZSTD_freeDCtx(context); }
};

ZSTD_DCtx* thread_context() {
  thread_local const std::unique_ptr<ZSTD_DCtx, FreeContext> context(ZSTD_createDCtx());
  if (!context) throw ResourceExhausted("zstd cannot start: no memory");
  return context.get();
}

void decode_part(const FilterStep& step, std::span<const std::byte> in, std::span<std::byte> out) {
  if (!zstd_decompress(in, out)) {
    throw_bad_part(step.config.type, "bad stream", in.size(), out.size());
  }
}

}  // namespace

bool zstd_decompress(std::span<const std::byte> in, std::span<std::byte> out) {
  const size_t size =
      ZSTD_decompressDCtx(thread_context(), out.data(), out.size(), in.data(), in.size());
  return ZSTD_isError(size) == 0 && size == out.size();
}

bool decode_zstd_runs(const Chunk& chunk, std::vector<CellRun>& runs) {
  // One part of data and none of metadata, as for plain cells.
  ByteReader table(chunk.metadata);
  if (table.remaining() != 4 * sizeof(uint32_t)) return false;
  if (table.read<uint32_t>("metadata parts") != 0 || table.read<uint32_t>("data parts") != 1 ||
      table.read<uint32_t>("original length") != chunk.original_bytes ||
      table.read<uint32_t>("compressed length") != chunk.data.size()) {
    return false;
  }
  thread_local const auto decoder = std::make_unique<zstd::RunDecoder>();
  return decoder->decode(chunk.data, chunk.original_bytes, runs);
}

void decode_zstd(FilterStep& step) { decode_compressed(step, decode_part); }

}  // namespace penstock::codec
