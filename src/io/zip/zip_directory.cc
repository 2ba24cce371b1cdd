#include "io/zip/zip_directory.h"

#include <penstock/error.h>

#include <utility>

#include "base/byte_reader.h"
#include "base/checked.h"
#include "base/concat.h"
#include "base/utf8.h"
#include "io/store.h"

namespace penstock::io {
namespace {

constexpr uint32_t kEndSignature = 0x06054B50;
constexpr uint32_t kZip64LocatorSignature = 0x07064B50;
constexpr uint32_t kZip64EndSignature = 0x06064B50;
constexpr uint32_t kEntrySignature = 0x02014B50;
constexpr uint32_t kDigitalSignature = 0x05054B50;
constexpr uint32_t kLocalSignature = 0x04034B50;
constexpr size_t kEndBytes = 22;
constexpr uint64_t kZip64LocatorBytes = 20;
constexpr uint64_t kZip64RecordBytes = 56;
constexpr uint16_t kZip64Extra = 1;
constexpr uint16_t kEncryptedFlag = 1;
constexpr uint32_t kIn64 = 0xFFFFFFFF;  ///< a number that the zip64 field has

uint32_t signature_at(std::span<const std::byte> bytes, size_t offset) {
  return ByteReader(bytes.subspan(offset)).read<uint32_t>("signature");
}

/// Offset in `tail` of the record at the end, whose comment fills the rest.
size_t find_end(std::span<const std::byte> tail) {
  for (size_t at = tail.size() < kEndBytes ? 0 : tail.size() - kEndBytes + 1; at-- > 0;) {
    if (signature_at(tail, at) != kEndSignature) continue;
    const auto comment = ByteReader(tail.subspan(at + 20)).read<uint16_t>("comment length");
    if (comment == tail.size() - at - kEndBytes) return at;
  }
  throw CorruptData("not a zip archive: it has no end of central directory");
}

/// Numbers of an entry that need 64 bits, in a fixed order, only those that do.
void apply_zip64(ByteReader extra, ZipEntry& entry, bool size, bool stored, bool offset) {
  while (extra.remaining() >= 4) {
    const auto id = extra.read<uint16_t>("id of an extra field");
    ByteReader data(extra.take(extra.read<uint16_t>("length of an extra field"), "extra field"));
    if (id != kZip64Extra) continue;
    if (size) entry.size_bytes = data.read<uint64_t>("zip64 size");
    if (stored) entry.stored_bytes = data.read<uint64_t>("zip64 stored size");
    if (offset) entry.header_offset = data.read<uint64_t>("zip64 offset");
    return;
  }
  if (size || stored || offset) throw CorruptData("an entry has no zip64 field, but needs one");
}

}  // namespace

ZipDirectoryPlace find_zip_directory(std::span<const std::byte> tail, uint64_t archive_bytes) {
  const size_t end = find_end(tail);
  const uint64_t end_offset = archive_bytes - tail.size() + end;
  ByteReader reader(tail.subspan(end + 4));
  const auto disk = reader.read<uint16_t>("disk");
  const auto first_disk = reader.read<uint16_t>("disk of the directory");
  reader.skip(2, "number of entries on this disk");
  const auto entries = reader.read<uint16_t>("number of entries");
  const auto bytes = reader.read<uint32_t>("size of the directory");
  const auto offset = reader.read<uint32_t>("offset of the directory");
  const bool zip64 = end >= kZip64LocatorBytes &&
                     signature_at(tail, end - kZip64LocatorBytes) == kZip64LocatorSignature;
  if (zip64) {
    ByteReader locator(tail.subspan(end - kZip64LocatorBytes + 8));
    const auto record = locator.read<uint64_t>("offset of the zip64 record");
    const uint64_t locator_offset = end_offset - kZip64LocatorBytes;
    if (record > locator_offset || locator_offset - record < kZip64RecordBytes) {
      throw CorruptData(concat("the zip64 record must lie before offset ", locator_offset,
                               ", but is at ", record));
    }
    return {{record, kZip64RecordBytes}, true, entries};
  }
  if (disk != 0 || first_disk != 0) {
    throw Unsupported("a zip archive in several files is not read; make one file of it");
  }
  if (offset > end_offset || bytes > end_offset - offset) {
    throw CorruptData(concat("the directory of a zip archive must lie before offset ", end_offset,
                             ", but is at ", offset, " and has ", bytes, " bytes"));
  }
  return {{offset, bytes}, false, entries};
}

ZipDirectoryPlace parse_zip64_record(std::span<const std::byte> record, uint64_t record_offset) {
  ByteReader reader(record);
  if (reader.read<uint32_t>("signature") != kZip64EndSignature) {
    throw CorruptData(concat("no zip64 record at offset ", record_offset));
  }
  reader.skip(28, "zip64 record");
  const auto entries = reader.read<uint64_t>("number of entries");
  const auto bytes = reader.read<uint64_t>("size of the directory");
  const auto offset = reader.read<uint64_t>("offset of the directory");
  if (offset > record_offset || bytes > record_offset - offset) {
    throw CorruptData(concat("the directory of a zip archive must lie before offset ",
                             record_offset, ", but is at ", offset, " and has ", bytes, " bytes"));
  }
  return {{offset, bytes}, false, static_cast<uint16_t>(entries)};
}

ZipEntries parse_zip_directory(std::span<const std::byte> directory,
                               const ZipDirectoryPlace& place) {
  const uint64_t directory_offset = place.range.offset;
  uint16_t count = 0;
  ZipEntries entries;
  ByteReader reader(directory);
  while (!reader.empty()) {
    const size_t at = reader.offset();
    if (const auto signature = reader.read<uint32_t>("signature of an entry");
        signature != kEntrySignature) {
      if (signature == kDigitalSignature) break;
      throw CorruptData(concat("no entry at offset ", at, " of the directory of a zip archive"));
    }
    ++count;
    ZipEntry entry;
    reader.skip(4, "versions");
    entry.encrypted = (reader.read<uint16_t>("flags") & kEncryptedFlag) != 0;
    entry.method = reader.read<uint16_t>("method");
    reader.skip(4, "time");
    entry.crc32 = reader.read<uint32_t>("checksum");
    const auto stored = reader.read<uint32_t>("stored size");
    const auto size = reader.read<uint32_t>("size");
    const auto name_bytes = reader.read<uint16_t>("length of the name");
    const auto extra_bytes = reader.read<uint16_t>("length of extra fields");
    const auto comment_bytes = reader.read<uint16_t>("length of the comment");
    reader.skip(8, "attributes");
    const auto offset = reader.read<uint32_t>("offset of the local header");
    const std::string name(reader.take_string(name_bytes, "name of an entry"));
    ByteReader extra(reader.take(extra_bytes, "extra fields"));
    reader.skip(comment_bytes, "comment of an entry");
    entry.stored_bytes = stored;
    entry.size_bytes = size;
    entry.header_offset = offset;
    // Folders end in a slash, which is no plain path.
    if (!is_plain_path(name) || !is_utf8(name)) continue;
    with_place(
        [&] {
          apply_zip64(extra, entry, size == kIn64, stored == kIn64, offset == kIn64);
          const uint64_t header_end = checked_add(
              entry.header_offset, kZipLocalHeaderBytes + name.size(), "the end of a local header");
          if (checked_add(header_end, entry.stored_bytes, "the end of an entry") >
              directory_offset) {
            throw CorruptData(concat("an entry of a zip archive must lie before offset ",
                                     directory_offset, ", but is at ", entry.header_offset,
                                     " and has ", entry.stored_bytes, " bytes"));
          }
          if (entry.method == kZipStored && !entry.encrypted &&
              entry.size_bytes != entry.stored_bytes) {
            throw CorruptData(concat("an entry of ", entry.size_bytes, " bytes is stored in ",
                                     entry.stored_bytes, " without compression"));
          }
        },
        [&] { return name; });
    entries.insert_or_assign(name, entry);
  }
  if (count != place.entries) {
    throw CorruptData(concat("the directory of a zip archive must have ", place.entries,
                             " entries, modulo 65536, it has ", count));
  }
  return entries;
}

uint64_t zip_data_offset(std::span<const std::byte> local_header, const std::string& name,
                         const ZipEntry& entry, uint64_t archive_bytes) {
  ByteReader reader(local_header);
  if (reader.read<uint32_t>("signature of a local header") != kLocalSignature) {
    throw CorruptData(concat("no local header at offset ", entry.header_offset));
  }
  reader.skip(22, "local header");
  const auto name_bytes = reader.read<uint16_t>("length of the name");
  const auto extra_bytes = reader.read<uint16_t>("length of extra fields");
  if (name_bytes != name.size() || reader.take_string(name_bytes, "name of an entry") != name) {
    throw CorruptData(concat("the directory of a zip archive and the header at offset ",
                             entry.header_offset, " give an entry different names"));
  }
  const uint64_t offset = checked_add<uint64_t>(
      entry.header_offset, kZipLocalHeaderBytes + name_bytes + extra_bytes, "offset of an entry");
  if (offset > archive_bytes || entry.stored_bytes > archive_bytes - offset) {
    throw CorruptData(concat("an entry of ", entry.stored_bytes, " bytes at offset ", offset,
                             " must lie within the archive of ", archive_bytes));
  }
  return offset;
}

}  // namespace penstock::io
