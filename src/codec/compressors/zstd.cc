#include "codec/compressors/zstd.h"

#include <penstock/error.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "codec/compressors/compression.h"
#include "codec/growing_bytes.h"
#include "codec/tile/expansion.h"
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

/// Sum of the sizes that the frames claim. Nothing if one does not say it or is bad.
std::optional<uint64_t> claimed_bytes(std::span<const std::byte> in) {
  uint64_t total = 0;
  while (!in.empty()) {
    const uint64_t content = ZSTD_getFrameContentSize(in.data(), in.size());
    const size_t frame = ZSTD_findFrameCompressedSize(in.data(), in.size());
    if (content == ZSTD_CONTENTSIZE_UNKNOWN || content == ZSTD_CONTENTSIZE_ERROR ||
        ZSTD_isError(frame) != 0 || __builtin_add_overflow(total, content, &total)) {
      return std::nullopt;
    }
    in = in.subspan(frame);
  }
  return total;
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

bool zstd_decompress_unsized(std::span<const std::byte> in, uint64_t most, Buffer& out) {
  // ZSTD_decompressStream would allocate the window that a frame asks for, up to 128 MiB. So `out`
  // is made larger until the frames fit; the tries before the last one take as long as it at most.
  most = std::min(most, most_decoded_bytes(FilterType::kZstd, in.size()));
  const uint64_t expected = std::max<uint64_t>(claimed_bytes(in).value_or(4 * in.size()), 4096);
  uint64_t room = std::min({expected, most, uint64_t{kMostTrustedBytes}});
  for (;; room = std::min(2 * room, most)) {
    out.resize_discard(room);
    const size_t size =
        ZSTD_decompressDCtx(thread_context(), out.data(), out.size(), in.data(), in.size());
    if (ZSTD_isError(size) == 0) {
      out.resize_discard(size);  // shrinking keeps the bytes
      return true;
    }
    const bool too_small = ZSTD_getErrorCode(size) == ZSTD_error_dstSize_tooSmall;
    if (!too_small || room == most) return false;
  }
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
