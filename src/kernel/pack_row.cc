#include "kernel/pack_row.h"

#include <cstring>
#include <vector>

#include "kernel/encode_values.h"
#include "kernel/value_type.h"

namespace penstock::kernel {
namespace {

template <typename Index>
void write_indices(std::span<const Index> indices, uint8_t index_bytes, std::byte* out) {
  if (index_bytes == sizeof(Index)) {
    if (!indices.empty()) std::memcpy(out, indices.data(), indices.size_bytes());
    return;
  }
  for (size_t i = 0; i < indices.size(); ++i) {
    if (index_bytes == 2) {
      const auto narrow = static_cast<uint16_t>(indices[i]);
      std::memcpy(out + i * 2, &narrow, 2);
    } else {
      const auto wide = static_cast<uint32_t>(indices[i]);
      std::memcpy(out + i * 4, &wide, 4);
    }
  }
}

template <typename Index>
void pack(const PackedRowLayout& layout, std::span<const Index> indices, const std::byte* values,
          uint32_t wide_count, std::byte* destination, VectorPath path) {
  const auto nnz = static_cast<uint32_t>(indices.size());
  const PackedRowHeader header{nnz, wide_count};
  std::memcpy(destination, &header, sizeof(header));
  std::byte* out = destination + sizeof(header);
  if (wide_count == kRawRow) {
    if (nnz != 0) std::memcpy(out, values, size_t{nnz} * layout.value_bytes);
    write_indices(indices, layout.index_bytes, out + size_t{nnz} * layout.value_bytes);
    return;
  }
  std::byte* const index_out = out + size_t{wide_count} * layout.value_bytes;
  write_indices(indices, layout.index_bytes, index_out);
  auto* const codes = reinterpret_cast<uint8_t*>(index_out + size_t{nnz} * layout.index_bytes);
  encode_values(layout.value_type, values, nnz, codes, path);
  uint32_t left = wide_count;
  for (uint32_t i = 0; left != 0 && i < nnz; ++i) {
    if (codes[i] != kEscapeCode) continue;
    std::memcpy(out, values + size_t{i} * layout.value_bytes, layout.value_bytes);
    out += layout.value_bytes;
    --left;
  }
}

}  // namespace

PackedRowLayout make_row_layout(uint64_t column_count, DataType value_type) {
  PackedRowLayout layout;
  layout.index_bytes = column_count <= 65536 ? 2 : 4;
  layout.value_type = value_type;
  layout.value_bytes = visit_number(
      value_type, [](auto type) { return uint8_t{sizeof(typename decltype(type)::type)}; });
  return layout;
}

uint32_t encode_values(DataType type, const std::byte* values, uint32_t nnz, uint8_t* codes,
                       VectorPath path) {
  return visit_number(type, [&](auto identity) {
    return encode<typename decltype(identity)::type>(values, nnz, codes, path);
  });
}

uint32_t choose_wide_count(const PackedRowLayout& layout, const std::byte* values, uint32_t nnz,
                           VectorPath path) {
  thread_local std::vector<uint8_t> codes;
  if (codes.size() < nnz) codes.resize(nnz);
  const uint32_t escapes = encode_values(layout.value_type, values, nnz, codes.data(), path);
  const uint64_t coded = uint64_t{escapes} * layout.value_bytes + nnz;
  return coded <= uint64_t{nnz} * layout.value_bytes ? escapes : kRawRow;
}

void pack_row(const PackedRowLayout& layout, std::span<const uint32_t> indices,
              const std::byte* values, uint32_t wide_count, std::byte* destination,
              VectorPath path) {
  pack(layout, indices, values, wide_count, destination, path);
}

void pack_row(const PackedRowLayout& layout, std::span<const uint16_t> indices,
              const std::byte* values, uint32_t wide_count, std::byte* destination,
              VectorPath path) {
  pack(layout, indices, values, wide_count, destination, path);
}

}  // namespace penstock::kernel
