#include "codec/filters/positive_delta.h"

#include <penstock/error.h>

#include <cstring>
#include <type_traits>

#include "base/concat.h"
#include "codec/filters/windowed.h"

namespace penstock::codec {
namespace {

template <typename T>
void decode_windows(FilterStep& step) {
  using Wide = std::make_unsigned_t<T>;  // sums wrap
  const uint64_t windows = step.metadata.read<uint32_t>("number of windows");
  step.metadata.expect_items(windows, sizeof(T) + sizeof(uint32_t), "windows");
  const auto out = step.make_data(step.data.size());
  ByteReader in(step.data);
  for (uint64_t window = 0; window < windows; ++window) {
    auto value = step.metadata.read<Wide>("window offset");
    const auto bytes = step.metadata.read<uint32_t>("window length");
    std::byte* to = out.data() + in.offset();
    const auto from = in.take(bytes, "window");
    if (bytes % sizeof(T) != 0) {
      std::memcpy(to, from.data(), from.size());
      continue;
    }
    for (size_t at = 0; at < from.size(); at += sizeof(T)) {
      Wide delta;
      std::memcpy(&delta, from.data() + at, sizeof(T));
      value = static_cast<Wide>(value + delta);
      std::memcpy(to + at, &value, sizeof(T));
    }
  }
  if (!in.empty()) {
    throw CorruptData(
        concat("positive_delta: windows end ", in.remaining(), " bytes before the data"));
  }
  step.pass_metadata();
}

}  // namespace

void decode_positive_delta(FilterStep& step) {
  bool decoded = with_window_type(step.type, step.format_version,
                                  [&]<typename T>(T) { decode_windows<T>(step); });
  if (!decoded && size_of(step.type) == 1 && !is_string(step.type) && step.type != DataType::kAny) {
    decode_windows<uint8_t>(step);
    decoded = true;
  }
  if (!decoded) {
    step.pass_data();
    step.pass_metadata();
  }
}

}  // namespace penstock::codec
