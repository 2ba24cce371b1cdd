#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "format/row_file/row_file.h"

// The bytes of a row file that its reader and its writer agree on (docs/reference/pack-format.md).

namespace penstock::format::pack {

inline constexpr std::array<char, 8> kRowFileMagic = {'p', 's', 'r', 'o', 'w', 'f', 1, '\n'};

#pragma pack(push, 1)
struct RowFileHeader {
  std::array<char, 8> magic = kRowFileMagic;
  uint32_t version = kRowFileVersion;
  uint32_t value_type = 0;
  ContentKey key{};
  int64_t row_begin = 0;
  int64_t row_end = 0;
  uint64_t row_count = 0;
  uint64_t column_count = 0;
  uint64_t nonzeros = 0;
  uint64_t index_offset = 0;
  uint64_t index_bytes = 0;
  uint32_t index_checksum = 0;
  uint32_t header_checksum = 0;  ///< of all bytes before it
};
#pragma pack(pop)
static_assert(sizeof(RowFileHeader) == 112);

inline constexpr uint64_t kMostColumns = uint64_t{1} << 31;
inline constexpr size_t kWordBytes = 4;
inline constexpr uint16_t kLongRecord = 0xFFFF;  ///< its length is in a list of its own
inline constexpr uint64_t kGroupRows = 16;

}  // namespace penstock::format::pack
