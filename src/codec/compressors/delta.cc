#include "codec/compressors/delta.h"

#include <penstock/error.h>

#include <cstring>

#include "codec/compressors/compression.h"

namespace penstock::codec {
namespace {

template <typename T>
void sum_deltas(const std::byte* in, std::byte* out, size_t count) noexcept {
  T value = 0;
  for (size_t i = 0; i < count; ++i) {
    T delta;
    std::memcpy(&delta, in + i * sizeof(T), sizeof(T));
    value = static_cast<T>(value + delta);
    std::memcpy(out + i * sizeof(T), &value, sizeof(T));
  }
}

void decode_part(const FilterStep& step, std::span<const std::byte> in, std::span<std::byte> out) {
  if (out.empty()) return;
  const size_t width = delta_element_bytes(step);
  ByteReader reader(in);
  const auto count = reader.read<uint64_t>("number of deltas");
  if (count != out.size() / width || out.size() % width != 0 || reader.remaining() != out.size()) {
    throw_bad_part(step.config.type,
                   std::to_string(count) + " values of " + std::to_string(width) + " bytes",
                   in.size(), out.size());
  }
  const std::byte* deltas = reader.take(out.size(), "deltas").data();
  switch (width) {
    case 1:
      return sum_deltas<uint8_t>(deltas, out.data(), out.size());
    case 2:
      return sum_deltas<uint16_t>(deltas, out.data(), out.size() / 2);
    case 4:
      return sum_deltas<uint32_t>(deltas, out.data(), out.size() / 4);
    default:
      return sum_deltas<uint64_t>(deltas, out.data(), out.size() / 8);
  }
}

}  // namespace

size_t delta_element_bytes(const FilterStep& step) {
  const DataType type =
      step.config.reinterpret_type == DataType::kAny ? step.type : step.config.reinterpret_type;
  if (is_floating(type)) {
    throw CorruptData(std::string(name_of(step.config.type)) + " filter over " +
                      std::string(name_of(type)) + " values");
  }
  return is_string(type) ? 1 : size_of(type);
}

void decode_delta(FilterStep& step) { decode_compressed(step, decode_part); }

}  // namespace penstock::codec
