#include "format/zarr/shards/shard_index.h"

#include <penstock/error.h>

#include "base/byte_reader.h"
#include "base/checked.h"
#include "base/concat.h"
#include "base/hash/checksum.h"

namespace penstock::format::zarr {
namespace {

constexpr uint64_t kAbsent = UINT64_MAX;
constexpr uint64_t kEntryBytes = 16;
constexpr uint64_t kChecksumBytes = 4;

}  // namespace

uint64_t ShardIndexForm::stored_bytes() const {
  const uint64_t entries = checked_mul(chunks, kEntryBytes, "the size of a shard index");
  return checked_add(entries, checksum ? kChecksumBytes : 0, "the size of a shard index");
}

io::ByteRange ShardIndexForm::place_in(uint64_t shard_bytes) const {
  const uint64_t bytes = stored_bytes();
  if (shard_bytes < bytes) {
    throw CorruptData(
        concat("truncated: a shard of ", shard_bytes, " bytes cannot hold its index of ", bytes));
  }
  return {at_start ? 0 : shard_bytes - bytes, bytes};
}

ShardIndex ShardIndex::parse(std::span<const std::byte> stored, const ShardIndexForm& form,
                             uint64_t shard_bytes) {
  if (stored.size() != form.stored_bytes()) {
    throw CorruptData(
        concat("a shard index must have ", form.stored_bytes(), " bytes, has ", stored.size()));
  }
  ByteReader reader(stored);
  const auto entries = reader.take(form.chunks * kEntryBytes, "shard index");
  if (form.checksum) {
    const auto expected = reader.read<uint32_t>("checksum of the shard index");
    if (const uint32_t actual = crc32c(entries); actual != expected) {
      throw CorruptData(concat("the CRC-32C of a shard index must be ", expected, ", is ", actual));
    }
  }
  ShardIndex index;
  index.chunks_.reserve(form.chunks);
  ByteReader numbers(entries);
  const auto next = [&] {
    const auto number = numbers.read<uint64_t>("shard index");
    return form.big_endian ? __builtin_bswap64(number) : number;
  };
  for (uint64_t i = 0; i < form.chunks; ++i) {
    const uint64_t offset = next();
    const uint64_t length = next();
    const bool absent = offset == kAbsent && length == kAbsent;
    if (!absent && (offset > shard_bytes || length > shard_bytes - offset)) {
      throw CorruptData(concat("chunk ", i, " of a shard must lie within its ", shard_bytes,
                               " bytes, but has offset ", offset, " and length ", length));
    }
    index.chunks_.push_back({offset, length});
  }
  return index;
}

std::optional<io::ByteRange> ShardIndex::chunk(uint64_t number) const {
  if (number >= chunks_.size()) return std::nullopt;
  const io::ByteRange& range = chunks_[number];
  if (range.offset == kAbsent) return std::nullopt;
  return range;
}

}  // namespace penstock::format::zarr
