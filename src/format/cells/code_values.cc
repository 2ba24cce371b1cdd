#include "format/cells/code_values.h"

#include <cstring>

#include "kernel/pack_row.h"

namespace penstock::format {
namespace {

template <typename Bits>
void append(const codec::Escapes<Bits>& chunk, uint32_t first_cell, CellEscapes& escapes) {
  const size_t at = escapes.values.size();
  escapes.values.resize(at + chunk.size() * sizeof(Bits));
  std::byte* out = escapes.values.data() + at;
  for (const auto& escape : chunk) {
    escapes.cells.push_back(first_cell + escape.position);
    std::memcpy(out, &escape.bits, sizeof(Bits));
    out += sizeof(Bits);
  }
}

template <typename Bits, typename Plain, typename Shuffled>
bool code_fused(const codec::CellBytes& values, std::span<uint8_t> codes, size_t max_escapes,
                codec::Escapes<Bits>& chunk, Plain&& plain, Shuffled&& shuffled) {
  chunk.clear();
  return values.shuffled ? shuffled(values.bytes, codes, chunk, max_escapes)
                         : plain(values.bytes, codes, chunk, max_escapes);
}

bool code_plain(DataType type, const codec::CellBytes& values, size_t count, uint32_t first_cell,
                size_t max_escapes, uint8_t* codes, CellEscapes& escapes) {
  const size_t size = size_of(type);
  const uint32_t found =
      kernel::encode_values(type, values.bytes.data(), static_cast<uint32_t>(count), codes);
  if (found > max_escapes) return false;
  const uint8_t* at = codes;
  for (uint32_t i = 0; i < found; ++i, ++at) {
    at = static_cast<const uint8_t*>(
        std::memchr(at, kEscapeCode, static_cast<size_t>(codes + count - at)));
    const auto cell = static_cast<size_t>(at - codes);
    const std::byte* value = values.bytes.data() + cell * size;
    escapes.cells.push_back(first_cell + static_cast<uint32_t>(cell));
    escapes.values.insert(escapes.values.end(), value, value + size);
  }
  return true;
}

}  // namespace

bool codes_from_planes(DataType type) noexcept {
  switch (type) {
    case DataType::kFloat32:
    case DataType::kInt32:
    case DataType::kUInt32:
    case DataType::kInt64:
    case DataType::kUInt64:
      return true;
    default:
      return false;
  }
}

bool code_values(DataType type, const codec::CellBytes& values, size_t count, uint32_t first_cell,
                 size_t max_escapes, uint8_t* codes, CellEscapes& escapes) {
  const std::span<uint8_t> out(codes, count);
  const auto call = [](auto function) {
    return [function](auto bytes, auto to, auto& chunk, size_t max) {
      return function(bytes, to, chunk, max, best_vector_path());
    };
  };
  bool coded = false;
  switch (type) {
    case DataType::kFloat32:
      coded = code_fused(values, out, max_escapes, escapes.chunk32, call(codec::float32_to_codes),
                         call(codec::shuffled_float32_to_codes));
      break;
    case DataType::kInt32:
    case DataType::kUInt32:  // the same bits below 255, and an escape is its bits
      coded = code_fused(values, out, max_escapes, escapes.chunk32, call(codec::int32_to_codes),
                         call(codec::shuffled_int32_to_codes));
      break;
    case DataType::kInt64:
    case DataType::kUInt64:
      coded = code_fused(values, out, max_escapes, escapes.chunk64, call(codec::int64_to_codes),
                         call(codec::shuffled_int64_to_codes));
      break;
    default:
      return code_plain(type, values, count, first_cell, max_escapes, codes, escapes);
  }
  if (!coded) return false;
  if (size_of(type) == 4) {
    append(escapes.chunk32, first_cell, escapes);
  } else {
    append(escapes.chunk64, first_cell, escapes);
  }
  return true;
}

}  // namespace penstock::format
