#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "io/range_coalescing.h"

// The central directory of a zip archive: which entries there are and where they lie. Source:
// APPNOTE.TXT of PKWARE, sections 4.3 and 4.5.3 (zip64).
//
// Bytes are untrusted: every offset and length is checked against the size of the archive.

namespace penstock::io {

struct ZipEntry {
  uint64_t header_offset = 0;  ///< of the local header, behind which the data follow
  uint64_t stored_bytes = 0;
  uint64_t size_bytes = 0;
  uint32_t crc32 = 0;
  uint16_t method = 0;
  bool encrypted = false;
};

/// Entries by path. Later ones replace earlier ones of the same name.
using ZipEntries = std::map<std::string, ZipEntry, std::less<>>;

inline constexpr uint16_t kZipStored = 0;
inline constexpr uint16_t kZipDeflated = 8;

/// Bytes at the end of an archive in which the place of the directory is found.
inline constexpr uint64_t kZipTailBytes = 22 + 65535 + 20;

/// Bytes of a local header before the name.
inline constexpr uint64_t kZipLocalHeaderBytes = 30;

/// Where the directory, or the record that leads to it, lies.
struct ZipDirectoryPlace {
  ByteRange range;
  bool is_zip64_record = false;  ///< the range is a record for parse_zip64_record
  uint16_t entries = 0;          ///< how many there are, their lower 16 bits
};

/// `tail` is the last min(kZipTailBytes, archive_bytes) bytes. Throws CorruptData if it is no zip
/// archive.
ZipDirectoryPlace find_zip_directory(std::span<const std::byte> tail, uint64_t archive_bytes);

/// The place of the directory according to a zip64 record at `record_offset`.
ZipDirectoryPlace parse_zip64_record(std::span<const std::byte> record, uint64_t record_offset);

/// Entries of a directory, whose place is known. Folders and names that lead elsewhere are left
/// out.
ZipEntries parse_zip_directory(std::span<const std::byte> directory,
                               const ZipDirectoryPlace& place);

/// Where the data of an entry begin, from its local header at entry.header_offset with the name
/// behind it. Throws CorruptData if the header has another name than the directory.
uint64_t zip_data_offset(std::span<const std::byte> local_header, const std::string& name,
                         const ZipEntry& entry, uint64_t archive_bytes);

}  // namespace penstock::io
