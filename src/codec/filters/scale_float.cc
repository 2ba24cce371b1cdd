#include "codec/filters/scale_float.h"

#include <penstock/error.h>

#include <cstring>

#include "base/concat.h"

namespace penstock::codec {
namespace {

template <typename Float, typename Stored>
void scale(const FilterConfig& config, std::span<const std::byte> in, std::byte* out) noexcept {
  for (size_t i = 0; i < in.size() / sizeof(Stored); ++i) {
    Stored stored;
    std::memcpy(&stored, in.data() + i * sizeof(Stored), sizeof(Stored));
    // Converts to Float first, as TileDB's reader does, so a large int64 is rounded to float32.
    const auto value =
        static_cast<Float>(config.scale * double{static_cast<Float>(stored)} + config.offset);
    std::memcpy(out + i * sizeof(Float), &value, sizeof(Float));
  }
}

template <typename Float>
void decode_parts(FilterStep& step) {
  const size_t width = size_of(output_type(step.config, step.type));
  const uint64_t parts = step.metadata.read<uint32_t>("number of parts");
  step.metadata.expect_items(parts, sizeof(uint32_t), "parts");
  if (step.data.size() % width != 0) {
    throw CorruptData(
        concat("float_scale: integers of ", width, " bytes in ", step.data.size(), " bytes"));
  }
  const auto out = step.make_data(step.data.size() / width * sizeof(Float));
  ByteReader in(step.data);
  for (uint64_t part = 0; part < parts; ++part) {
    const auto bytes = step.metadata.read<uint32_t>("part length");
    if (bytes % width != 0) {
      throw CorruptData(concat("float_scale: integers of ", width, " bytes in a part of ", bytes));
    }
    std::byte* to = out.data() + in.offset() / width * sizeof(Float);
    const auto from = in.take(bytes, "part");
    switch (width) {
      case 1:
        scale<Float, int8_t>(step.config, from, to);
        break;
      case 2:
        scale<Float, int16_t>(step.config, from, to);
        break;
      case 4:
        scale<Float, int32_t>(step.config, from, to);
        break;
      default:
        scale<Float, int64_t>(step.config, from, to);
        break;
    }
  }
  if (!in.empty()) {
    throw CorruptData(concat("float_scale: parts end ", in.remaining(), " bytes before the data"));
  }
  step.pass_metadata();
}

}  // namespace

void decode_scale_float(FilterStep& step) {
  switch (size_of(step.type)) {
    case sizeof(float):
      return decode_parts<float>(step);
    case sizeof(double):
      return decode_parts<double>(step);
    default:
      throw CorruptData("float_scale filter over " + std::string(name_of(step.type)) + " values");
  }
}

}  // namespace penstock::codec
