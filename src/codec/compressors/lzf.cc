#include "codec/compressors/lzf.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>

namespace penstock::codec {
namespace {

constexpr unsigned kLiterals = 32;  ///< control bytes below this begin a literal run
constexpr size_t kLongLength = 7;   ///< a length of so many goes on in the next byte
constexpr size_t kLeastCopy = 2;    ///< added to the length of a copy

/// A step of the stream: a run of literals, or a copy.
struct Step {
  size_t bytes = 0;
  size_t distance = 0;  ///< 0: literals, which follow in the stream
};

/// Reads the head of a step at `at`, which is behind it afterwards. None if the stream ends in it.
std::optional<Step> read_step(std::span<const std::byte> in, size_t& at) noexcept {
  const auto control = std::to_integer<unsigned>(in[at++]);
  Step step;
  if (control < kLiterals) {
    step.bytes = control + 1;
    if (step.bytes > in.size() - at) return std::nullopt;
    return step;
  }
  step.bytes = control >> 5;
  if (step.bytes == kLongLength) {
    if (at == in.size()) return std::nullopt;
    step.bytes += std::to_integer<size_t>(in[at++]);
  }
  step.bytes += kLeastCopy;
  if (at == in.size()) return std::nullopt;
  step.distance = ((control & 0x1FU) << 8 | std::to_integer<size_t>(in[at++])) + 1;
  return step;
}

}  // namespace

bool lzf_decompress(std::span<const std::byte> in, std::span<std::byte> out) noexcept {
  size_t at = 0, done = 0;
  while (at < in.size()) {
    const auto step = read_step(in, at);
    if (!step || step->bytes > out.size() - done || step->distance > done) return false;
    std::byte* const to = out.data() + done;
    if (step->distance == 0) {
      std::memcpy(to, in.data() + at, step->bytes);
      at += step->bytes;
    } else if (step->distance >= step->bytes) {
      std::memcpy(to, to - step->distance, step->bytes);
    } else {
      // A copy that overlaps itself repeats what it writes.
      for (size_t i = 0; i < step->bytes; ++i) to[i] = *(to + i - step->distance);
    }
    done += step->bytes;
  }
  return done == out.size();
}

bool lzf_decompress_unsized(std::span<const std::byte> in, uint64_t most, Buffer& out) {
  size_t bytes = 0;
  for (size_t at = 0; at < in.size();) {
    const auto step = read_step(in, at);
    if (!step || step->distance > bytes) return false;
    if (step->distance == 0) at += step->bytes;
    bytes += step->bytes;
  }
  if (bytes > most) return false;
  out.resize_discard(bytes);
  return lzf_decompress(in, out.span());
}

}  // namespace penstock::codec
