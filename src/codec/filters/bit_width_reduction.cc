#include "codec/filters/bit_width_reduction.h"

#include <penstock/error.h>

#include <cstring>
#include <type_traits>

#include "base/concat.h"
#include "codec/filters/windowed.h"

namespace penstock::codec {
namespace {

// Relative values are signed if T is signed. The sum wraps in T.
template <typename T, typename Stored>
void widen_window(std::span<const std::byte> in, T smallest, std::span<std::byte> out) noexcept {
  using Wide = std::make_unsigned_t<T>;
  for (size_t i = 0; i < out.size() / sizeof(T); ++i) {
    Stored relative;
    std::memcpy(&relative, in.data() + i * sizeof(Stored), sizeof(Stored));
    const auto value = static_cast<Wide>(static_cast<Wide>(relative) + static_cast<Wide>(smallest));
    std::memcpy(out.data() + i * sizeof(T), &value, sizeof(T));
  }
}

template <typename T>
void decode_window(ByteReader& in, T smallest, unsigned bits, std::span<std::byte> out) {
  const size_t count = out.size() / sizeof(T);
  constexpr bool kSigned = std::is_signed_v<T>;
  switch (bits) {
    case 8:
      return widen_window<T, std::conditional_t<kSigned, int8_t, uint8_t>>(in.take(count, "window"),
                                                                           smallest, out);
    case 16:
      return widen_window<T, std::conditional_t<kSigned, int16_t, uint16_t>>(
          in.take(count * 2, "window"), smallest, out);
    case 32:
      return widen_window<T, std::conditional_t<kSigned, int32_t, uint32_t>>(
          in.take(count * 4, "window"), smallest, out);
    default:
      throw CorruptData(concat("bit_width_reduction: window of ", bits, " bits"));
  }
}

template <typename T>
void decode_windows(FilterStep& step) {
  const auto original = step.metadata.read<uint32_t>("original length");
  const uint64_t windows = step.metadata.read<uint32_t>("number of windows");
  constexpr uint64_t kHeaderBytes = sizeof(T) + sizeof(uint8_t) + sizeof(uint32_t);
  step.metadata.expect_items(windows, kHeaderBytes, "windows");
  const auto out = step.make_data(original);
  ByteReader room(out);
  ByteReader in(step.data);
  for (uint64_t window = 0; window < windows; ++window) {
    const auto smallest = step.metadata.read<T>("window offset");
    const unsigned bits = step.metadata.read<uint8_t>("window bits");
    const auto bytes = step.metadata.read<uint32_t>("window length");
    const auto at = room.offset();
    room.skip(bytes, "window");
    const auto target = out.subspan(at, bytes);
    if (bits >= sizeof(T) * 8 || bytes % sizeof(T) != 0) {
      const auto raw = in.take(bytes, "window");
      if (!raw.empty()) std::memcpy(target.data(), raw.data(), raw.size());
    } else {
      decode_window<T>(in, smallest, bits, target);
    }
  }
  if (!room.empty() || !in.empty()) {
    throw CorruptData(concat("bit_width_reduction: windows end ", room.remaining(),
                             " bytes before the chunk and ", in.remaining(), " before the data"));
  }
  step.pass_metadata();
}

}  // namespace

void decode_bit_width_reduction(FilterStep& step) {
  const bool decoded = with_window_type(step.type, step.format_version,
                                        [&]<typename T>(T) { decode_windows<T>(step); });
  if (!decoded) {
    step.pass_data();
    step.pass_metadata();
  }
}

}  // namespace penstock::codec
